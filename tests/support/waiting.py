"""Wait for a condition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")
MAX_PAUSE_S = 0.04


def wait_until(condition: Callable[[], Result], timeout_s: float = 10, what: str = "the condition") -> Result:
    """Poll until the result is true, and return it. Raise AssertionError with `what` after the timeout.

    The longer it takes, the less often it is polled: the polls of a run took a tenth of one core.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - began
        if waited > timeout_s:
            raise AssertionError(f"waited {timeout_s:g} s for {what}, in vain; the last answer was {result!r}")
        time.sleep(min(0.01 + waited / 50, MAX_PAUSE_S))
    return result
