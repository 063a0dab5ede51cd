"""The tab Events: what happened in the shown run, one row for each event, with a heading for each day."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from core.diagnosis.timeline import TimelineEntry
from core.language import tr, tr_noop
from gui.style.formatting import day

SPOKEN = {"warn": tr_noop("{time}, Warning: {text}"), "bad": tr_noop("{time}, Error: {text}")}
"""What a screen reader hears before a row that is marked by a sign and a colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One row."""

    when: str
    """`18:03:12`; the empty string for the heading of a day."""
    text: str
    """In one line."""
    tone: str
    """`warn`, `bad`, or the empty string."""
    whole: str
    """Everything in the text, on several lines where it has them."""
    copied: str
    """The row as it is copied, with its date."""
    is_epoch: bool = False

    @property
    def is_day(self) -> bool:
        """Whether it is the heading of a day."""
        return not self.when

    @property
    def spoken(self) -> str:
        """The row for a screen reader."""
        if self.is_day:
            return self.text
        return tr(SPOKEN.get(self.tone, "{time}, {text}"), time=self.when, text=self.text)


class EventRows:
    """Makes rows of entries as they come."""

    def __init__(self, now: float) -> None:
        """`now`: unix seconds. Entries of that day need no heading."""
        self._day = day(now)

    def rows(self, entries: Iterable[TimelineEntry]) -> list[EventRow]:
        """Return the rows of the next entries, with a heading where the day changes."""
        found = []
        for entry in entries:
            today = day(entry.time)
            if today != self._day:
                self._day = today
                found.append(EventRow(when="", text=today, tone="", whole=today, copied=today))
            found.append(_row(entry))
        return found


def _row(entry: TimelineEntry) -> EventRow:
    then, text = time.localtime(entry.time), " ".join(entry.text.splitlines())
    return EventRow(
        when=time.strftime("%H:%M:%S", then),
        text=text,
        tone=entry.tone,
        whole=entry.text,
        copied=f"{time.strftime('%Y-%m-%d %H:%M:%S', then)}  {text}",
        is_epoch=entry.is_epoch,
    )
