"""View data about devices: rows of the device list, memory bars, rows of processes."""
