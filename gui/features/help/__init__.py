"""Help.

- `controller`: documents, keys, folders; what this program and this machine are
"""
