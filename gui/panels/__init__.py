"""The panels of the window. Each subpackage is one card.

- `details`: the tabs about a run
"""
