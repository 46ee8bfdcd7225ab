"""The page: where every pod runs, and why it may not run elsewhere."""
