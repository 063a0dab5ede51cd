"""Known ways of printing metrics. `registry` returns what a line says, and `syntax` holds what they share.

- `forms`: lines in the forms of certain programs: one row for each form
- `bars`, `dictionary`, `pairs`: progress bars, dictionaries, names and numbers
- `tables`: a line is read with the header or the lines before it, which `text.open_table` remembers
"""
