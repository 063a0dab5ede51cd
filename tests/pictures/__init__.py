"""Pictures of the window in ten states, equal on every machine: references of a test, and those of the documentation.

- `machine`: a machine that does not exist: its devices, its clock, its fonts, its users
- `runs`: directories of runs as their supervisors and workers would have written them
- `scenes`: the ten states
- `hosts`: hosts that do not exist
- `camera`: the program that opens the window and writes pictures; a process of its own, for each scale
- `images`: reduce, compare and write pictures
- `references`: which pictures there are, and where they are kept

`python -m tests.pictures` writes all of them again.
"""
