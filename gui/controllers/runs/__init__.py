"""The list of runs, and what can be done with one or several of them.

- `history_controller`: search in the list, star, tags, notes and archive
- `queue_controller`: move, hold, release and remove queued runs
- `missed_controller`: show which ends of runs the user has missed
- `export_controller`: export measurements, models, pictures and tables; rename runs
- `removal_controller`: delete runs
"""
