"""The page, by its parts and in a real browser."""
