"""The one matcher: does this toleration tolerate that taint, does this node satisfy that selector."""
