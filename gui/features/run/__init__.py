"""The shown run.

- `controller`: show the run in every part of the window
- `head`: its state, its progress and its buttons
- `events`, `settings`, `outputs`: tabs below the plots
- `failure`: the card about its failure
"""
