"""What belongs to the window as a whole. The dialogs are made when they are opened.

- `menu_bar`: the actions of the window by name, with their keys
- `preferences_dialog`, `notifications_dialog`: the choices that hold for every window; how and when users are notified
- `hosts_dialog`: the other machines that the user has added
- `documents_dialog`, `keys_dialog`, `about_dialog`: what the menu Help opens
- `file_drop`: recipes and scripts that are dropped on the window
- `notice_window`: says after the window was closed that runs continue
"""
