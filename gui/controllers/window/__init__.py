"""The window itself.

- `dock_layout`, `window_state`: place the panels; save and restore them
- `card_navigation`: Tab, F6 and Ctrl+F
- `menu_controller`, `help_controller`: connect the menu bar; documents, keys, About and the report
- `preferences_controller`: apply the preferences
"""
