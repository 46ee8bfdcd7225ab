"""Pods and pod templates: defaults and rules."""
