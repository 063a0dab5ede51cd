"""The window.

- `app`: open the window
- `main_window`: compose and connect its parts
- `display_check`: whether a window can be shown at all
- the packages, from top to bottom: see docs/architecture.md
"""
