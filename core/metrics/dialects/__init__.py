"""Known ways of printing metrics, one module each. `registry` lists them, and `syntax` holds what they share.

- `at_step`, `bars`, `dictionary`, `pairs`: a line says everything itself
- `bracketed`, `piped`, `logger_lines`: the same, in the ways of certain libraries
- `tables`, `key_values`: a line is read with the header or the lines before it, by `text.open_table`
"""
