"""Controllers of nodes: lifecycle, taint eviction, device taint eviction, pod garbage collection."""
