"""The times between the parts of a run in which it did not train: pauses, stops, failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.arrays import np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.series.min_max_tree import Floats

MAX_RESUMES = 1000
"""Resumes that are noted; a planted file may have a million."""
ENDINGS = frozenset({"paused", "stopped", "failed"})
"""States that end a part of a run and that events give; a part without an end was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One such time. Times are unix seconds of measurements."""

    since: float
    """The last measurement before it that counts: steps after the checkpoint were trained again."""
    until: float
    """The first measurement after it."""
    duration_s: float
    """Seconds without training: from the last measurement before it, whether it counts or not, to `until`."""
    state: str
    """How the part before it ended: `paused`, `stopped`, `failed` or `lost`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resume:
    """A start of a run that had measured before."""

    at: float
    measured: float
    """The last measurement before it."""
    state: str
    """How the part before it ended."""


class Resumes:
    """Notes the states and the times of the measurements of a run, and finds its interruptions."""

    def __init__(self) -> None:
        self._state = ""
        self._measured: float | None = None
        """Unix time of the last measurement, whether it counts or not."""
        self._resumes: list[_Resume] = []

    def note_measurement(self, at: float) -> None:
        """Note a measurement at this unix time."""
        self._measured = max(self._measured or 0.0, at)

    def note_state(self, state: str, at: float) -> None:
        """Note that the run entered a state at this unix time."""
        before, self._state = self._state, state
        last = self._resumes[-1] if self._resumes else None
        if state != "starting" or self._measured is None or len(self._resumes) == MAX_RESUMES:
            return
        if last is not None and (self._measured == last.measured or at < last.at):
            return  # a part without a measurement lengthens the interruption
        ended = before if before in ENDINGS else "lost"
        self._resumes.append(_Resume(at=at, measured=self._measured, state=ended))

    def interruptions(self, measurements: Iterable[Floats]) -> list[Interruption]:
        """Return the interruptions in order, without one after which nothing was measured.

        `measurements`: the unix times of the measurements of each metric that count, each in order and not empty.
        """
        if not self._resumes:
            return []
        at = np.array([resume.at for resume in self._resumes])
        since, until = np.full(len(at), -np.inf), np.full(len(at), np.inf)
        for times in measurements:
            place = np.searchsorted(times, at)
            since = np.maximum(since, np.where(place > 0, times.take(place - 1, mode="clip"), -np.inf))
            until = np.minimum(until, np.where(place < len(times), times.take(place, mode="clip"), np.inf))
        found = {}  # by `since`: two of them if the run was rewound beyond an earlier one
        for resume, begin, end in zip(self._resumes, since.tolist(), until.tolist(), strict=True):
            if np.isfinite(begin) and np.isfinite(end):
                found[begin] = Interruption(
                    since=begin, until=end, duration_s=max(end - resume.measured, 0.0), state=resume.state
                )
        return list(found.values())
