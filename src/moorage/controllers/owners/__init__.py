"""What controllers of pods share: claiming, creating and deleting pods, and their revisions."""
