"""All that runs inside a training process: the standard library and one framework, nothing else.

This package is also loaded under a private name by an interpreter in which nothing of ours is
installed (see `boot`), hence relative imports and Python 3.10 syntax.
"""
