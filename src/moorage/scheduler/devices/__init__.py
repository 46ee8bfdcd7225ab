"""Devices for pods: which there are, who has them, and how claims are given theirs."""
