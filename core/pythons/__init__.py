"""The Pythons of this machine: where they are and which packages they have. Nothing is imported from them.

- `discovery`: find Pythons without starting any; ask all of them in the background
- `python_info`, `probe`: ask one about itself in a helper process; keep the answers
"""
