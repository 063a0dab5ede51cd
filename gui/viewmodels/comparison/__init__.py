"""What the window shows about several runs.

- `compared`, `comparison_rows`: the runs of a comparison; their table
- `run_differences`: the text on why two runs differ
- `scaling_rows`: scaling tables in the list of runs, and what their view says
"""
