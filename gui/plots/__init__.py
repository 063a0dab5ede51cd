"""The plots of the window: one module each, and one row in `registry`."""
