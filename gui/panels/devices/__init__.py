"""The list of devices and the banner above it."""
