"""Syntax tree to checked expression: types, and what it reads."""
