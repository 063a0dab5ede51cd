"""The shown run.

- `controller`: show the run in every part of the window
- `head`: its state, its progress and its buttons
- `events`: the tab Events, and the card about a failure
- `settings`, `outputs`: other tabs below the plots
"""
