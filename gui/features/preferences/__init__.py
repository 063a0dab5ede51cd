"""What the user prefers.

- `preferences`: the preferences, those of notifications too, with their dialogs and menus
"""
