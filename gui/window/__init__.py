"""The window: it makes services, panels and features, and passes on what happens to it.

- `main_window`: the window, and what it keeps
- `feature`, `features`, `services`: what a feature is; all features; what they share
- `layout`, `run_panels`: the panels and their places; the header and the tabs about the shown run
- `menus`: the menu bar; Tab, F6 and the way from card to card
"""
