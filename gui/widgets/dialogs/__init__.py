"""Dialogs. None of them blocks the window.

- `dialog`: one that informs; the buttons of one that asks
- `confirm_dialog`, `name_dialog`: ask before something that cannot be undone; ask for a name
- `file_dialog`: ask for a file or a folder
"""
