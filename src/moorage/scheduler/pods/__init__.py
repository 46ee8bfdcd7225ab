"""Pods in relation to others: counts by topology, affinity terms, spread constraints, owners."""
