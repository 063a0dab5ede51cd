"""The findings of the memory watch as data: the verdict on each device, and the processes that hold it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from core.language import tr_noop
from core.schema.codec import Sentence, decode, encode, named
from core.system.process_info import ProcessInfo, process_fields

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(Enum):
    """What became of a device's memory after a run. The values appear in event files and in `--json`."""

    RELEASED = tr_noop("released")
    HELD_BY_RUN = tr_noop("held by this run")
    HELD_BY_OTHERS = tr_noop("held by others")
    UNEXPLAINED = tr_noop("unexplained")
    CANNOT_BE_JUDGED = tr_noop("cannot be judged")


BADNESS = (
    Verdict.RELEASED, Verdict.CANNOT_BE_JUDGED, Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED, Verdict.HELD_BY_RUN
)  # fmt: skip
"""From the best to the worst."""
HELD = frozenset({Verdict.HELD_BY_RUN, Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED})
"""The verdicts on memory that did not come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The finding on one device after the run's last worker had exited."""

    device_id: str = field(metadata=named("device"))
    verdict: Verdict
    before_bytes: int | None
    """Memory used before the first worker was started; None without a reading."""
    peak_bytes: int | None
    after_bytes: int | None
    """Memory used at the last reading after the end; None without one."""
    seconds: float
    """Seconds from the exit of the last worker to the verdict."""
    sentence: Sentence
    holders: tuple[ProcessInfo, ...] = ()
    """Processes that still hold the device."""


def worst(releases: Iterable[Release]) -> Release | None:
    """Return the release with the worst verdict, and of those the one that took longest; None for no releases."""
    return max(releases, key=lambda each: (BADNESS.index(each.verdict), each.seconds), default=None)


def release_fields(release: Release) -> dict[str, Any]:
    """Return the fields of the event of a finding."""
    holders = [process_fields(each) for each in release.holders]
    return {**encode(release), "seconds": round(release.seconds, 3), "holders": holders}


def read_release(event: dict[str, Any]) -> Release:
    """Read a finding from its event. Raises `ValueError` when the event is damaged."""
    found = decode(Release, event)
    return replace(found, holders=tuple(replace(each, device_id=found.device_id) for each in found.holders))
