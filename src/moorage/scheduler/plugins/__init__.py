"""The plugins that every scheduler has."""
