"""Scaling tables: what is asked before one is measured, and its view. Both are made when they are opened.

- `start_dialog`: name, batch and repeats of a new table
- `table_dialog`: progress, table and plot of one
"""
