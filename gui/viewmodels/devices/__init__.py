"""What the window shows about devices and their processes."""
