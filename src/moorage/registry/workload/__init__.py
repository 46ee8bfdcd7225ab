"""Kinds that make pods of templates."""
