"""What the window shows about a run that could be started."""
