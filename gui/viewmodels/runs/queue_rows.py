"""The queue in the list of runs: queued runs first, in their order, with the reason why they wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.history.summary import RunSummary
from core.language import tr
from core.runs.facts.states import state_info

if TYPE_CHECKING:
    from core.queue.listing import QueuedRun

HELD = "held"
"""The state of a queued run that does not start: see `core.queue.listing.QueuedRun`."""


def queued_first(summaries: Iterable[RunSummary], queue: Sequence[QueuedRun]) -> list[RunSummary]:
    """Return the summaries with the queued runs on top, in the order of the queue."""
    places = {each.run_dir: each.place for each in queue}
    queued: list[RunSummary] = []
    others: list[RunSummary] = []
    for each in summaries:
        (queued if state_info(each.state).waits else others).append(each)
    queued.sort(key=lambda each: places.get(each.dir, len(places) + 1))  # one that was queued just now is the last
    return queued + others


def queued_words(queued: QueuedRun) -> str:
    """Return the second line of a queued run: `GPU 0 is used by run bert`, `held`, or `held · ...` with why."""
    if queued.request.held and not queued.request.why_held:
        return tr("held")
    reason = queued.reason.partition("\n")[0].rstrip(".。")
    return f"{tr('held')} · {reason}" if queued.state == HELD else reason


def queued_tip(queued: QueuedRun) -> str:
    """Return the place, the devices and the whole reason of a queued run."""
    place = tr("Place {place} in your queue. It needs {devices}.", place=queued.place, devices=queued.needs)
    return f"{place}\n{queued.reason}"


def place_of_drop(queue: Sequence[QueuedRun], run_dir: Path, before: Path | None) -> int | None:
    """Return the place of a queued run that was dropped before another one; None if it stays where it is.

    `before`: the run that should follow it; one that is not queued, or None, means the end of the queue.
    """
    order = [each.run_dir for each in queue]
    if run_dir not in order or before == run_dir:
        return None
    others = [each for each in order if each != run_dir]
    place = others.index(before) + 1 if before in others else len(others) + 1
    return None if place == order.index(run_dir) + 1 else place


def place_of_step(queue: Sequence[QueuedRun], run_dir: Path, step: int) -> int | None:
    """Return the place of a queued run that is moved up (-1) or down (1); None at the end, or if it is not queued."""
    place = next((each.place for each in queue if each.run_dir == run_dir), None)
    return None if place is None or not 1 <= place + step <= len(queue) else place + step
