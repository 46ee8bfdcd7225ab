"""Typed objects, the table of kinds, and reading them from JSON and YAML."""
