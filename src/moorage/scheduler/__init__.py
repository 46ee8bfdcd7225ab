"""The scheduler: where each pod goes, decided for all nodes at once."""
