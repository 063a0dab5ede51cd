"""Help.

- `controller`: documents, keys, folders
- `about`: what this program and this machine are
"""
