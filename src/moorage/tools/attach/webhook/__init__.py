"""The admission webhook of attach mode: it validates rules in annotations, and writes what they need into pods."""
