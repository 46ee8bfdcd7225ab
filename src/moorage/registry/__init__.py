"""What each kind is: its defaults, what is prepared, what is refused, how it is printed. No I/O."""
