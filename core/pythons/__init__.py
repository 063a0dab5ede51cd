"""The Pythons of this machine: where they are and which packages they have. Nothing is imported from them.

- `places`, `discovery`, `search`: where Pythons are looked for
- `facts`, `probe`, `probe_process`: ask one about itself
- `cache`: remember the answers
- `selection`: which one runs a script by default
"""
