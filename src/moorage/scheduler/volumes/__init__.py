"""Volumes for pods: claims, volumes that suit them, attachments, and what is written about them."""
