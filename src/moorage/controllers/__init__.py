"""Controllers: what evicts, replaces, collects and keeps alive."""
