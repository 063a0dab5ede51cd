"""What the window shows in the list of runs.

- `run_rows`, `queue_rows`: the rows; the queued runs among them
- `run_actions`: what can be done with a run, or why not
- `owner_question`: the question before a run or a preset of another user is used
"""
