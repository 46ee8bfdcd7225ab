"""The API server: what Kubernetes clients talk to."""
