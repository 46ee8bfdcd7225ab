"""The evaluator that absorbs errors, and what both ways of evaluation share at run time."""
