"""The window's parts: one class in one file, one signal out, one setter in."""
