"""Attach mode: Moorage beside the components of a cluster that somebody else runs."""
