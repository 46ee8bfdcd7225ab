"""What would happen if: a private cluster in this process, filled from a snapshot, on a clock that is moved."""
