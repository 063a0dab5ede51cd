"""The panels of the window: devices, setup and recipe, runs, and the tabs log, memory and processes."""
