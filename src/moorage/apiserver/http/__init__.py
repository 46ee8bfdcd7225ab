"""HTTP: connections, messages, limits, media types, and failures as Status objects."""
