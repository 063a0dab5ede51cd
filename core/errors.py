"""Errors while running. `str()` of each is a sentence for users: what happened, to which thing, what to do.

A wrong choice of the user's is a plain `ValueError`; our own mistakes are `assert`s.
"""


class RunError(Exception):
    """A run failed, or could not be started."""


class RunNotFoundError(RunError):
    """No run, or more than one, has the given name."""
