"""The shown run.

- `controller`: show the run in every part of the window
- `head`: its state, its progress and its buttons
- `events`: the tab Events, and the card about a failure
- `live`: other settings for a run that trains, and a trace of it
- `settings`, `outputs`: other tabs below the plots
"""
