"""The grammar of requests that bench/fuzz.py draws from, how they are sent, and what must hold of what they stored."""
