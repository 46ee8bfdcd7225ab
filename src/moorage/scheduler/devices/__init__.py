"""Dynamic resource allocation: devices and pools, which are taken, and how claims are allocated."""
