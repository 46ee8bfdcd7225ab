"""The node table: nodes in columns, shapes of pods, selectors over rows."""
