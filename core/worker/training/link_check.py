"""Check the link between the machines of a run before anything trains, and record how fast it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from ...language import tr
from ...schema.event_kinds import LinkSpeed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context

LINK_BYTES = 1024 * 1024
"""Size of the tensor that is summed over all ranks."""
TRIALS = 3
Ones = TypeVar("Ones")


def check_link(context: Context, backend: str, ones: Callable[[], Ones], is_summed: Callable[[Ones], bool]) -> None:
    """Sum a tensor of ones over all ranks, and record the shortest time as a `LinkSpeed`.

    `backend`: with which the ranks exchange data. `ones`: makes the tensor, shape (LINK_BYTES / 4,), float32.
    `is_summed`: sums it, and returns whether each number is the world size. Raises `RuntimeError` with a sentence if
    the sum is wrong.
    """
    seconds = []
    for _ in range(TRIALS):
        tensor = ones()
        began = time.perf_counter()
        if not is_summed(tensor):
            raise RuntimeError(
                tr("A test of the network between the machines gave wrong sums. Check it, then start the run again.")
            )
        seconds.append(time.perf_counter() - began)
    if context.rank == 0:
        bytes_per_s = LINK_BYTES / max(min(seconds), 1e-9)
        context.record(LinkSpeed(size_bytes=LINK_BYTES, seconds=min(seconds), bytes_per_s=bytes_per_s, backend=backend))
