"""What the window shows, as plain data. No Qt in here.

- `compared`, `comparison_rows`, `run_differences`: the runs of a comparison; their table; the text on why two differ
- `notifications`: the form of the settings of notifications, and what became of a test
- `program_report`: the libraries of the program, and the report that a user can copy
"""
