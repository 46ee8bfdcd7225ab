"""The rows of bench/attacks.py, one module for each theme."""
