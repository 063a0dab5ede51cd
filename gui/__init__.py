"""The window: a viewer of runs. It never imports a framework or user code."""
