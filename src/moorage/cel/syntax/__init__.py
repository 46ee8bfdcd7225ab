"""Source text to syntax tree, and back."""
