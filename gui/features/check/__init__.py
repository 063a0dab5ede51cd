"""Check this machine.

- `controller`: offer it once, and do the checks on a thread
- `dialog`: the checks of one click, what they found, what helps, and a text for an issue
"""
