"""Known ways of printing metrics. `text.statements` asks them what a line says; `syntax` holds what they share.

- `plain`: one way to write a line: decimal points, values without their wrapping, English words
- `forms`: lines in the forms of certain programs: one row for each form
- `bars`: progress bars
- `pairs`: names and numbers, also in dictionaries
- `tables`: a line is read with the header or the lines before it, which `text.statements` remembers
"""
