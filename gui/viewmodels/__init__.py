"""What the window shows, as plain data. No Qt in here.

- `program_report`: the libraries of the program, and the report that a user can copy
"""
