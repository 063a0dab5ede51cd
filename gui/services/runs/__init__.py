"""All runs below a folder.

- `run_list`: their summaries
- `missed_runs`: which of their ends the user has missed
- `queue_service`: the queued runs, and the devices that are set aside
- `scaling_tables`: the scaling tables among them
- `comparison_reader`: the runs of a comparison, and their table
"""
