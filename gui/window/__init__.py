"""The window: it makes services, panels and features, and passes on what happens to it.

- `main_window`: the window
- `feature`, `features`, `services`: what a feature is; all features; what they share
- `layout`, `header`, `details`: the places of the panels; the header and the tabs below the plots
- `menus`, `navigation`: the menu bar; Tab, F6 and the way from card to card
- `state`: what is kept
- `notices`: a notice that outlives the window; files that are dropped on it
"""
