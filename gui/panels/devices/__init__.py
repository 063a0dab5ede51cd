"""The list of devices."""
