"""The window: it makes services, panels and controllers, and connects them.

- `main_window`, `services`: the window; everything that works in its background
- `layout`, `header`, `details`: the places of the panels; the header and the tabs below the plots
- `menus`, `navigation`: the menu bar; Tab, F6 and the way from card to card
- `state`: what is kept
- `notices`: a notice that outlives the window; files that are dropped on it
"""
