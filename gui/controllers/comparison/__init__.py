"""Several runs at once.

- `comparison_controller`, `comparison_view`, `comparison_export`: compare the ticked runs, and export that
- `scaling_controller`: measure scaling tables and show them
"""
