"""What is below the curves of several runs.

- `differences_card`: the table with its controls, and the text on why runs differ
- `comparison_table`: the table
"""
