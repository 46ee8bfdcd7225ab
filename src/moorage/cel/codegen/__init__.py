"""Checked expression to Python code object."""
