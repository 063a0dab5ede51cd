"""Ways to start worker processes: one file each."""
