"""What the window shows in the list of runs.

- `run_rows`, `queue_rows`: the rows; the queued runs among them
- `missed_rows`: the list of those that ended while the user was away
- `run_actions`: what can be done with a run, or why not
- `owner_question`: the question before a run or a preset of another user is used
"""
