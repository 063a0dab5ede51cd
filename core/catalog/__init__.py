"""What there is to train with.

- `frameworks`: one row per framework
- `strategies`: one row per strategy of a framework, and the ways to launch a script
- `recipes`: recipe files, read without importing them
- `interpreters`: which Python runs a framework
"""
