"""A whole control plane in one process."""
