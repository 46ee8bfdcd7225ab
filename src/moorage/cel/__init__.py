"""A typed, costed CEL engine with the Kubernetes libraries. It knows nothing about pods."""
