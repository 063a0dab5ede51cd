"""Measure whether a training fits into the memory of its devices, and up to which batch.

- `probe`: short runs that only measure, in a folder that is removed afterwards
- `answer`: which sizes are measured, the largest batch by a line through two of them, and what else would help
"""
