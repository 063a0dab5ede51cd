"""The panels of the window. Each subpackage is one card.

- `details`: the tabs about a run
- `settings_view`: the tab about what a run was trained with
- `outputs_tab`: the tab about files that functions of the recipe have written
- `failure_card`: the card about a failed run, over the plots
- `first_steps`: the guidance for a first run, over the plots
- `preferences_dialog`: the choices that hold for every window
- `notifications_dialog`: how and when users are notified about runs
- `menu_bar`: the actions of the window by name, with their keys
- `event_list`: the tab Events
"""
