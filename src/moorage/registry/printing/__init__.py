"""How objects are printed in tables."""
