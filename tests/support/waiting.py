"""Wait for a condition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


def wait_until(condition: Callable[[], Result], timeout_s: float = 10, what: str = "the condition") -> Result:
    """Poll until the result is true, and return it. Raise AssertionError with `what` after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s for {what}, in vain; the last answer was {result!r}")
        time.sleep(0.01)
    return result
