"""The runs that ended while the user was away."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, Signal

from core.history.summary import RunSummary
from core.language import tr
from core.runs.facts import HELD, RunState, state_info
from gui.base.formatting import moment
from gui.base.settings_file import SettingsFile, folder_key
from gui.runs.rows import mark, outcome, tone
from gui.runs.run_list import RunListService
from gui.runs.verdicts import SHORT, TONES


class MissedRow(NamedTuple):
    """One run, ready to be shown in two lines."""

    dir: Path
    name: str
    when: str
    """`18:03`."""
    words: str
    """`finished · loss 0.214 · memory used by others`."""
    mark: str
    tone: str
    is_new: bool
    """Whether the user has not looked at the list since."""

    @property
    def spoken(self) -> str:
        """The row for a screen reader, and whole for a tooltip."""
        return tr(", ").join(filter(None, (self.name, self.words, self.when)))


def missed_row(summary: RunSummary, now: float, *, is_new: bool) -> MissedRow:
    """Return the row of a run; `now` in unix seconds."""
    when = "" if summary.ended is None else moment(summary.ended, now)
    words, sign, colour = outcome(summary), mark(summary), tone(summary)
    if (held := summary.verdict) is not None and held in HELD:
        words = f"{words} · {tr(SHORT[held])}"
        sign, colour = ("alert", TONES[held]) if colour == "good" else (sign, colour)
    return MissedRow(summary.dir, summary.name, when, words, sign, colour, is_new)


VERSION = 2
MARGIN_S = 10.0
"""Seconds before a moment in which a run may have ended that the list of runs did not show yet."""
MAX_KEPT = 500
"""Ends that are kept; the oldest are forgotten."""
ON_REQUEST = frozenset({RunState.STOPPED, RunState.PAUSED})


@dataclass(frozen=True, slots=True)
class Missed:
    """An end that the user has missed."""

    ended: float
    """Unix seconds; a run that was resumed has another end."""
    is_new: bool = True
    """Whether the user has not looked at the list since."""


class MissedRuns(QObject):
    """Follows the list of runs. Runs of other users are left out."""

    changed = Signal()
    """Other ends were missed, or seen, or what is known of their runs has changed."""

    def __init__(self, run_list: RunListService) -> None:
        super().__init__()
        self._run_list = run_list
        self._file, self._key = SettingsFile(), f"{folder_key(run_list.root)}/missed"
        kept = self._file.value(self._key, dict)
        self._is_first = kept.get("version") != VERSION
        """Whether no window has followed this folder before: then what has ended so far was not missed."""
        self._since = time.time() if self._is_first else _number(kept.get("looked"), time.time())
        """Unix seconds up to which an earlier window has seen all ends of runs that it knew."""
        self._missed = {name: Missed(ended) for name, ended in _times(kept.get("missed")).items()}
        """By name of the folder; the latest last."""
        self._seen = _times(kept.get("seen"))
        """By name, the ends that the user has seen, in this window or another one; the latest last."""
        self._going = {name: asked is True for name, asked in _items(kept.get("going"))}
        """By name, runs that are not over, and whether this window asked them to stop or pause."""
        self._ends = _times(kept.get("ends"))
        """By name, when runs ended whose end was noticed near the last look."""
        self._over: dict[str, RunSummary] = {}
        self._known: set[int] = set()
        """The `id` of each of these: a list of ten thousand is compared every second while a run is live."""
        self._followed: set[str] = set()
        """Runs that this window has listed before they were over."""
        self._attended_since: float | None = None
        """Unix seconds since which the user has the window before them; None while they have not."""
        self._taken: list[RunSummary] | None = None
        run_list.changed.connect(self._take)

    @property
    def runs(self) -> list[tuple[RunSummary, bool]]:
        """The runs whose ends were missed, newest first, each with whether the user has not looked at the list since.

        Runs that were deleted, or go on again, are not among them.
        """
        found = [(self._over[name], each.is_new) for name, each in self._missed.items() if name in self._over]
        return sorted(found, key=lambda each: each[0].ended or 0.0, reverse=True)

    def attend(self, *, attended: bool) -> None:
        """Note whether the user has the window before them at this moment: it is shown and active."""
        has_turned = attended is (self._attended_since is None)
        self._attended_since = (self._attended_since or time.time()) if attended else None
        if has_turned or self._is_first:
            self._is_first = False
            self.save()

    def expect(self, run_dir: Path) -> None:
        """Note that the user of this window asked a run to stop or to pause: that it does so is no news."""
        self._going[run_dir.name] = True
        self.save()

    def look_through(self) -> None:
        """Note that the user has looked at the list."""
        self._note_seen((name, each.ended) for name, each in self._missed.items())
        self._change({name: replace(each, is_new=False) for name, each in self._missed.items()})

    def see(self, run_dir: Path) -> None:
        """Note that the user has looked at a run."""
        self._note_seen((name, each.ended) for name, each in self._missed.items() if name == run_dir.name)
        self._change({name: each for name, each in self._missed.items() if name != run_dir.name})

    def see_all(self) -> None:
        """Note that the user has seen all of them."""
        self._note_seen((name, each.ended) for name, each in self._missed.items())
        self._change({})

    def save(self) -> None:
        """Write what the next window needs, and take over what the user has seen in other windows."""
        kept = self._file.value(self._key, dict)
        if kept.get("version") != VERSION:
            kept = {}
        self._note_seen(_times(kept.get("seen")).items())
        looked = self._since
        if self._taken is not None and not self._run_list.left:
            looked = max(time.time() - MARGIN_S, self._since)
        looked = max(looked, _number(kept.get("looked"), 0.0))
        ends = {**_times(kept.get("ends")), **self._ends}
        asked = {name for name, was_asked in _items(kept.get("going")) if was_asked is True}
        self._file.save({self._key: {
            "version": VERSION, "looked": looked, "missed": self._missed_anywhere(_times(kept.get("missed"))),
            "seen": self._seen, "going": {name: mine or name in asked for name, mine in self._going.items()},
            "ends": {name: when for name, when in ends.items() if when > looked},
        }})
        left = {name: each for name, each in self._missed.items() if not each.is_new or not self._has_seen(name, each)}
        if left != self._missed:
            self._missed = left
            self.changed.emit()

    def _missed_anywhere(self, others: Mapping[str, float]) -> dict[str, float]:
        """Return the ends that were missed in this window or another one, and seen in none."""
        missed = dict(others)
        for name, each in self._missed.items():
            missed[name] = max(each.ended, missed.pop(name, 0.0))
        unseen = [(name, ended) for name, ended in missed.items() if not self._has_seen(name, Missed(ended))]
        return dict(unseen[-MAX_KEPT:])

    def _has_seen(self, name: str, end: Missed) -> bool:
        return name in self._seen and end.ended <= self._seen[name]

    def _note_seen(self, ends: Iterable[tuple[str, float]]) -> None:
        for name, ended in ends:
            self._seen[name] = max(ended, self._seen.pop(name, 0.0))
        for oldest in list(self._seen)[:-MAX_KEPT]:
            del self._seen[oldest]

    def _change(self, missed: dict[str, Missed]) -> None:
        if missed != self._missed:
            self._missed = missed
            self.save()
            self.changed.emit()

    def _take(self) -> None:
        """Look for runs that are over since the last look."""
        summaries = self._run_list.summaries
        if summaries is self._taken:
            return  # only the search has changed
        self._taken = summaries
        noticed, differs = False, False
        for summary in [each for each in summaries if id(each) not in self._known]:
            name = summary.dir.name
            known = self._over.pop(name, None)
            self._known.discard(id(known))
            differs = differs or name in self._missed
            if not state_info(summary.state).over:
                self._followed.add(name)
                self._going.setdefault(name, False)
                continue
            self._over[name] = summary
            self._known.add(id(summary))
            if name in self._going or (known is None and self._is_later(summary)):
                self._note_end(summary)
                noticed = True
        if not self._run_list.left and len(self._over) + len(self._going) > len(summaries):
            self._forget_gone({each.dir.name for each in summaries})
        if noticed:
            self.save()
        if noticed or differs:
            self.changed.emit()

    def _is_later(self, summary: RunSummary) -> bool:
        """Return whether a run that was over when it was first listed has ended since the last look."""
        ended = summary.ended
        return ended is not None and ended > self._since and self._ends.get(summary.dir.name) != ended

    def _note_end(self, summary: RunSummary) -> None:
        name = summary.dir.name
        was_asked = self._going.pop(name, False)
        if summary.ended is not None and math.isfinite(summary.ended):
            self._ends[name] = summary.ended
        is_expected = was_asked and summary.state in ON_REQUEST and summary.verdict not in HELD
        self._missed.pop(name, None)  # an earlier end of a run that was resumed
        ended = _number(summary.ended, 0.0)
        if self._was_seen(summary) or is_expected:
            self._note_seen([(name, ended)])
        elif not summary.owner and not self._has_seen(name, Missed(ended)):
            self._missed[name] = Missed(ended)
            for oldest in list(self._missed)[:-MAX_KEPT]:
                del self._missed[oldest]

    def _was_seen(self, summary: RunSummary) -> bool:
        """Return whether a run ended before the eyes of the user."""
        if self._attended_since is None:
            return False
        if summary.state is RunState.LOST:  # its end is its last event, however late it was lost
            return summary.dir.name in self._followed
        return (summary.ended or 0.0) >= self._attended_since

    def _forget_gone(self, present: set[str]) -> None:
        """Forget runs that were deleted. What was missed of them is kept: their disk may only be away."""
        self._over = {name: each for name, each in self._over.items() if name in present}
        self._known = {id(each) for each in self._over.values()}
        self._going = {name: was_asked for name, was_asked in self._going.items() if name in present}
        self._followed &= present
        self.changed.emit()


def _number(value: object, default: float) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else default  # type: ignore[arg-type]


def _times(value: object) -> dict[str, float]:
    """Return times by name, the latest last."""
    return {name: _number(when, 0.0) for name, when in _items(value)[-MAX_KEPT:]}


def _items(value: object) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []
