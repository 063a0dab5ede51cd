"""What the window shows about runs."""
