"""Known ways of printing metrics. `registry` returns what a line says, and `syntax` holds what they share.

- `forms`: lines in the forms of certain programs: one row for each form
- `bars`, `dictionary`, `pairs`: progress bars, dictionaries, names and numbers
- `tables`, `key_values`: a line is read with the header or the lines before it, by `text.open_table`
"""
