"""Known ways of printing metrics, one module each. `registry` lists them, and `syntax` holds what they share.

- `at_step`, `bars`, `dictionary`, `pairs`: a line says everything itself
- `tables`, `key_values`: a line is read with the header or the lines before it, by `text.open_table`
"""
