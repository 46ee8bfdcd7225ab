"""What a request asks for: its route, its options, its body, the objects that it selects."""
