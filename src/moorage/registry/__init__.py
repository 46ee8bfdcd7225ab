"""What each kind is: its defaults, its strategy, its validation, how it is printed. No I/O."""
