"""What every feature knows of runs. No widgets.

- `session`, `reading`: the shown run; how runs are read, and kept
- `run_list`, `rows`, `groups`: all runs of the folder, and the queue; as rows; rows of several runs
- `actions`: what can be done with a run, one row each
- `words`, `progress`, `verdicts`: how a run reads; what stands where it has nothing to show
"""
