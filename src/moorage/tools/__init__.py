"""Questions that people ask of the rooms below: why a pod runs where it does, what is wrong with a manifest."""
