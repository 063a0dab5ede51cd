"""The shown run.

- `run_session`, `run_memory`: what is known of it; the runs that were shown before
- `run_opening`: the reading of a long run
- `output_reader`: the files that functions of its recipe have written
- `rule_teacher`: try and keep what the user says about a number of its log
"""
