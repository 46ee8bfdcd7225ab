"""Questions: where a pod may run and why, what is wrong in a manifest, what a rollback breaks, how fast pods bind."""
