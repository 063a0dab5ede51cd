"""Wait for a condition."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
PATIENCE_S = 300.0
"""How long a test waits for what must happen. It finds a hang, and says nothing of speed: the machine may be a tenth as
fast as another, and busy. No test has a patience of its own."""
MAX_PAUSE_S = 0.04


def wait_until(condition: Callable[[], Result], what: str = "the condition") -> Result:
    """Poll until the result is true, and return it. Raise AssertionError with `what` after `PATIENCE_S`.

    The longer it takes, the less often it is polled: the polls of a run took a tenth of one core.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - began
        if waited > PATIENCE_S:
            raise AssertionError(f"waited {PATIENCE_S:g} s for {what}, in vain; the last answer was {result!r}")
        time.sleep(min(0.01 + waited / 50, MAX_PAUSE_S))
    return result
