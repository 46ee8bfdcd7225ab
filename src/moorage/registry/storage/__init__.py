"""Volumes, claims, classes, and what CSI drivers write."""
