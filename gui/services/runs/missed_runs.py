"""Which ends of runs the user has missed: while the window was closed, hidden, minimised or not active.

They are kept in the settings file, for each folder of runs, so that the next window goes on where this one ended.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from core.runs.facts.states import RunState, state_info
from core.runs.facts.verdicts import HELD
from gui.services.window.settings_file import SettingsFile, folder_key

if TYPE_CHECKING:
    from pathlib import Path

    from core.history.summary import RunSummary

    from .run_list import RunListService

VERSION = 1
MARGIN_S = 10.0
"""Seconds before a moment in which a run may have ended that the list of runs did not show yet."""
MAX_KEPT = 500
"""Ends that are kept; the oldest are forgotten."""
ON_REQUEST = frozenset({RunState.STOPPED, RunState.PAUSED})


class MissedRuns(QObject):
    """Follows the list of runs. Runs of other users are left out."""

    changed = Signal()
    """Other ends were missed, or seen, or what is known of their runs has changed."""

    def __init__(self, run_list: RunListService) -> None:
        super().__init__()
        self._run_list = run_list
        self._file, self._key = SettingsFile(), f"{folder_key(run_list.root)}/missed"
        kept = self._file.mapping(self._key)
        self._is_first = kept.get("version") != VERSION
        """Whether no window has followed this folder before: then what has ended so far was not missed."""
        self._since = time.time() if self._is_first else _number(kept.get("looked"), time.time())
        """Unix seconds up to which an earlier window has seen all ends of runs that it knew."""
        self._missed = dict.fromkeys(_texts(kept.get("missed")), True)
        """By name of the folder, whether the user has not looked at the list since; the latest last."""
        self._going = {name: asked is True for name, asked in _items(kept.get("going"))}
        """By name, runs that are not over, and whether this window asked them to stop or pause."""
        self._ends = {name: _number(when, 0.0) for name, when in _items(kept.get("ends"))}
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
        found = [(self._over[name], is_new) for name, is_new in self._missed.items() if name in self._over]
        return sorted(found, key=lambda each: each[0].ended or 0.0, reverse=True)

    def attend(self, *, attended: bool) -> None:
        """Note whether the user has the window before them at this moment: it is shown and active."""
        has_left = self._attended_since is not None and not attended
        self._attended_since = (self._attended_since or time.time()) if attended else None
        if has_left or self._is_first:
            self._is_first = False
            self.save()

    def expect(self, run_dir: Path) -> None:
        """Note that the user of this window asked a run to stop or to pause: that it does so is no news."""
        self._going[run_dir.name] = True
        self.save()

    def look_through(self) -> None:
        """Note that the user has looked at the list."""
        self._change(dict.fromkeys(self._missed, False))

    def see(self, run_dir: Path) -> None:
        """Note that the user has looked at a run."""
        self._change({name: is_new for name, is_new in self._missed.items() if name != run_dir.name})

    def see_all(self) -> None:
        """Note that the user has seen all of them."""
        self._change({})

    def save(self) -> None:
        """Write what the next window needs."""
        looked = self._since
        if self._taken is not None and not self._run_list.left:
            looked = max(time.time() - MARGIN_S, self._since)
        self._file.keep_mapping(self._key, {
            "version": VERSION, "looked": looked, "missed": [name for name, is_new in self._missed.items() if is_new],
            "going": self._going, "ends": {name: when for name, when in self._ends.items() if when > looked},
        })  # fmt: skip
        self._file.save()

    def _change(self, missed: dict[str, bool]) -> None:
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
        if not (self._was_seen(summary) or is_expected or summary.owner):
            self._missed[name] = True
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


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)][-MAX_KEPT:] if isinstance(value, list) else []


def _items(value: object) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []
