"""Search a whole log on a thread, and later what was added to it."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject

from core.schema.files import open_to_read
from gui.services.jobs import Jobs, keep_as_it_is

from .file_tail import file_size

CHUNK_BYTES = 256 * 1024
"""Bytes to search at once: the window's thread may have to wait for that long."""
PAUSE_S = 0.0005
"""Pause after each chunk, in which the window's thread gets its turn."""
MAX_PLACES = 200_000
"""Matches whose places are kept; further ones are only counted."""


@dataclass(slots=True)
class _Search:
    """One search: the thread extends it, and the window reads it between two turns of the thread."""

    path: Path
    wanted: bytes
    """In lower case."""
    places: list[int] = field(default_factory=list)
    """Where the matches begin, in bytes from the beginning of the file."""
    count: int = 0
    read_to: int = 0
    cancelled: bool = False


class FileSearch:
    """The matches of a text in a file, ignoring the case of ASCII letters."""

    def __init__(self, owner: QObject) -> None:
        self._jobs = Jobs(owner, "log-search")
        self._search: _Search | None = None

    def start(self, path: Path | None, text: str) -> None:
        """Search for another text, or in another file; for the empty string, for nothing."""
        if self._search is not None:
            self._search.cancelled = True
        self._search = _Search(path, text.lower().encode()) if path is not None and text else None
        self.go_on()

    def go_on(self) -> None:
        """Search what was added to the file, unless a search is under way."""
        search = self._search
        if search is not None and file_size(search.path) > search.read_to:
            self._jobs.start(lambda: _run(search), keep_as_it_is, keep_as_it_is)

    @property
    def busy(self) -> bool:
        """Whether the file is being searched."""
        return self._jobs.busy

    @property
    def count(self) -> int:
        """Matches found so far."""
        return self._search.count if self._search else 0

    def before(self, offset: int) -> int | None:
        """Return where the last match before this place begins; None if there is none."""
        places = self._places()
        at = bisect_left(places, offset)
        return places[at - 1] if at else None

    def after(self, offset: int) -> int | None:
        """Return where the first match at this place or after it begins; None if there is none."""
        places = self._places()
        at = bisect_left(places, offset)
        return places[at] if at < len(places) else None

    def _places(self) -> list[int]:
        return self._search.places if self._search else []


def _run(search: _Search) -> None:
    """Search to the end of the file, or until the search is cancelled."""
    overlap = len(search.wanted) - 1
    with open_to_read(search.path) as file:
        size = os.fstat(file.fileno()).st_size
        while search.read_to < size and not search.cancelled:
            begin = max(search.read_to - overlap, 0)  # a match may begin in one chunk and end in the next
            file.seek(begin)
            chunk = file.read(CHUNK_BYTES + search.read_to - begin).lower()
            at = chunk.find(search.wanted)
            while at >= 0:
                search.count += 1
                if len(search.places) < MAX_PLACES:
                    search.places.append(begin + at)
                at = chunk.find(search.wanted, at + len(search.wanted))
            if not chunk:
                return
            search.read_to = begin + len(chunk)
            time.sleep(PAUSE_S)
