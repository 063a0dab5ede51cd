"""The Pythons of this machine: where they are and which packages they have. Nothing is imported from them.

- `discovery`: find Pythons without starting any
- `python_info`, `probe`: ask one about itself in a helper process; keep the answers
- `search`: find and ask all of them in the background
"""
