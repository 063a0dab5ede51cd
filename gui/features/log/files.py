"""Read a log file: its end as it grows, any part of it, and the lines with a text."""

from __future__ import annotations

import codecs
import os
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from PySide6.QtCore import QObject

from core.schema.files import open_to_read
from gui.base.jobs import Jobs, keep_as_it_is
from gui.features.log.terminal import readable

MAX_BYTES = 1024 * 1024
"""Maximum bytes of the end to read; text that arrives faster than it is read is skipped."""
KEPT_BYTES = MAX_BYTES // 4
"""Bytes of the end to continue with after skipping: fewer, or the next piece would skip again."""
LONG_LINE_BYTES = 16 * MAX_BYTES
"""Bytes of a last line, as of a progress bar, above which what was printed before it is not shown with it."""
MAX_LINES = 5000
PIECE_BYTES, PIECE_LINES = 16384, 400
"""Maximum size of a piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """A piece of text."""

    text: str
    restarts: bool
    """True if it does not continue the piece before: the file was truncated, or text was skipped."""


class FileTail:
    """Follows one file, which may not exist yet and may be truncated; or reads a part of it."""

    def __init__(self, path: Path, begin: int = 0, end: int | None = None) -> None:
        """`begin`, `end`: the part to read, in bytes; without an end, the file is followed."""
        self.path = path
        self.begin, self.end = begin, end
        """Where the text since the last restart begins; where it is to end, None for the end of the file."""
        self.offset = begin
        """Bytes up to which it was read."""
        self._jumped = 0
        """How long the file was when text was skipped: what was chosen then is read to that end."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self, max_bytes: int = PIECE_BYTES, *, may_skip: bool = True) -> LogPiece | None:
        """Return the next piece; None if there is nothing new.

        `may_skip`: skip text if there is too much.
        """
        try:
            with open_to_read(self.path) as file:
                size = file.seek(0, 2) if self.end is None else self.end
                before, begin = self.offset, self.offset
                if size < self.offset:
                    begin = 0
                if may_skip and self.end is None and size - max(begin, self._jumped) > MAX_BYTES:
                    file.seek(size - (MAX_BYTES if before == 0 else KEPT_BYTES))
                    begin = file.tell() + (start := _start_of_last_lines(file.read(MAX_BYTES)))
                    if before == start == 0:  # one line is longer
                        begin = _before_long_line(file, begin)
                    self._jumped = size
                file.seek(begin)
                data = file.read(max(min(max_bytes, PIECE_BYTES, size - begin), 0))
        except OSError:
            return None
        if not data:
            return None
        if begin != before:
            self._decoder.reset()
            self.begin = begin
        data = _first_lines(data)
        self.offset = begin + len(data)
        text = readable(self._decoder.decode(data))
        return LogPiece(text=text, restarts=begin != before)


def lines_before(path: Path, offset: int, lines: int = MAX_LINES) -> int:
    """Return where the lines before a place begin: so many of them, or those within `MAX_BYTES`.

    A line that the place is in comes in addition; with 0 lines, its beginning is returned.
    """
    try:
        with open_to_read(path) as file:
            first = max(offset - MAX_BYTES, 0)
            file.seek(first)
            data = file.read(offset - first)
    except OSError:
        return 0
    at = len(data)
    for _ in range(lines + 1):  # the first newline found is the end of the last line
        newline = data.rfind(b"\n", 0, at)
        if newline < 0:
            return first
        at = newline
    return first + at + 1


def lines_after(path: Path, offset: int, lines: int = MAX_LINES) -> int:
    """Return where the lines that begin at a place end: so many of them, or those within `MAX_BYTES`."""
    try:
        with open_to_read(path) as file:
            file.seek(offset)
            data = file.read(MAX_BYTES)
    except OSError:
        return offset
    at = 0
    for _ in range(lines):
        newline = data.find(b"\n", at)
        if newline < 0:
            return offset + len(data)
        at = newline + 1
    return offset + at


def file_size(path: Path) -> int:
    """Return the bytes of a file; 0 if there is none."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _first_lines(data: bytes) -> bytes:
    """Return at most `PIECE_LINES` lines."""
    if data.count(b"\n") <= PIECE_LINES:
        return data
    return b"\n".join(data.split(b"\n", PIECE_LINES)[:PIECE_LINES]) + b"\n"


def _start_of_last_lines(data: bytes) -> int:
    """Return where the last whole lines of `data` begin, fewer than `MAX_LINES`; 0 if it is all of one line."""
    at = end = len(data) - data.endswith(b"\n")
    for _ in range(MAX_LINES - 1):
        newline = data.rfind(b"\n", 0, at)
        if newline < 0:
            break
        at = newline
    return at + 1 if at < end else 0


def _before_long_line(file: BinaryIO, offset: int) -> int:
    """Return where the last lines before the line around a place begin, or that place if its line is too long."""
    for first in range(offset - MAX_BYTES, offset - LONG_LINE_BYTES, -MAX_BYTES):
        file.seek(max(first, 0))
        data = file.read(min(MAX_BYTES, first + MAX_BYTES))
        newline = data.rfind(b"\n")
        if newline >= 0 or first <= 0:
            return max(first, 0) + _start_of_last_lines(data[: newline + 1])
    return offset


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
