"""What every controller is made of: reconciliation by key, timers, rate limits."""
