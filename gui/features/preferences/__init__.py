"""What the user prefers.

- `preferences`: the preferences, their dialog and their menus
- `notifications`: how the user is told about ends of runs
"""
