"""Controllers of claims: volumes and devices."""
