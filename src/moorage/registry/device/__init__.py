"""Devices: what drivers offer, what claims ask for."""
