"""Trainyard without a window: runs, devices, strategies, the command line."""
