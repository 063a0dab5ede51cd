"""What the user prefers.

- `preferences`: the preferences, their dialog and their menus
- `notifications`: notifications about the ends of runs
"""
