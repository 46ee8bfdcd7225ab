"""The ways to patch an object, and server-side apply with its managed fields."""
