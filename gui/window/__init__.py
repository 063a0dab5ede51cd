"""The window: it makes services, panels and features, and passes on what happens to it.

- `main_window`: the window, and what it keeps
- `feature`, `features`: what a feature is; all features, and what they share
- `panels`, `layout`: the panels, with the header and the tabs about the shown run; their places
- `menus`: the menu bar; Tab, F6 and the way from card to card
"""
