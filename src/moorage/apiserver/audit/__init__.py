"""The audit log: who asked for what, when, and how it was answered."""
