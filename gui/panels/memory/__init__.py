"""Memory after a run, and the processes on the devices."""
