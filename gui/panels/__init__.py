"""The panels of the window. Each subpackage is one card.

- `details`: the tabs about a run
- `failure_card`: the card about a failed run, over the plots
- `menu_bar`: the actions of the window by name, with their keys
- `event_list`: the tab Events
"""
