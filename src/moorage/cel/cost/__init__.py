"""What a checked expression can cost at most, before it runs."""
