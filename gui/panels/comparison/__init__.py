"""Several runs: the card below their curves, and scaling tables.

- `differences_card`: the table with its controls, and the text on why runs differ
- `comparison_table`: the table
- `scaling_dialog`: name, batch and repeats of a new scaling table
- `scaling_table_dialog`: progress, table and plot of one
"""
