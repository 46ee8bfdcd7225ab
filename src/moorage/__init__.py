"""Moorage decides where Kubernetes pods may run: by thresholds, versions, families of keys and expressions."""
