"""Short runs that answer a question: does a training fit into memory, and what made its loss NaN.

- `probe`: short runs that only measure, in a folder that is removed afterwards
- `answer`: which sizes are measured, the largest batch by a line through two of them, and what else would help
- `replay`: the layer that made the first number which is not finite
"""
