"""What went wrong while running. `str()` of each is a sentence for people: what happened, to which thing, what to do.

What the user chose wrongly is a plain `ValueError`; our own mistakes are `assert`s.
"""


class RunError(Exception):
    """Something went wrong with a run that is under way, or that should have begun."""


class RunNotFoundError(RunError):
    """No run, or more than one, answers to the name that was given."""
