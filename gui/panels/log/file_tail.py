"""Follow the end of a growing text file in bounded pieces."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.schema.files import open_to_read

from .terminal import readable

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1024 * 1024
"""Maximum bytes of the end to read; text that arrives faster than it is read is skipped."""
KEPT_BYTES = MAX_BYTES // 4
"""Bytes of the end to continue with after skipping: fewer, or the next piece would skip again."""
MAX_LINES = 5000
PIECE_BYTES, PIECE_LINES = 16384, 400
"""Maximum size of a piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """A piece of text."""

    text: str
    restarts: bool
    """True if it does not continue the piece before: the file was truncated, or text was skipped."""
    skipped: bool
    """True if text before it was not read."""


class FileTail:
    """Follows one file, which may not exist yet and may be truncated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self, max_bytes: int = PIECE_BYTES, *, may_skip: bool = True) -> LogPiece | None:
        """Return the next piece; None if there is nothing new.

        `may_skip`: skip text if there is too much.
        """
        try:
            with open_to_read(self.path) as file:
                size = file.seek(0, 2)
                before, begin = self._offset, self._offset
                if size < self._offset:
                    begin = 0
                if may_skip and size - begin > MAX_BYTES:
                    file.seek(size - (MAX_BYTES if before == 0 else KEPT_BYTES))
                    begin = file.tell() + _start_of_last_lines(file.read(MAX_BYTES))
                file.seek(begin)
                data = file.read(min(max_bytes, PIECE_BYTES))
        except OSError:
            return None
        if not data:
            return None
        if begin != before:
            self._decoder.reset()
        data = _first_lines(data)
        self._offset = begin + len(data)
        text = readable(self._decoder.decode(data))
        return LogPiece(text=text, restarts=begin != before, skipped=begin > 0 and begin != before)


def _first_lines(data: bytes) -> bytes:
    """Return at most `PIECE_LINES` lines."""
    if data.count(b"\n") <= PIECE_LINES:
        return data
    return b"\n".join(data.split(b"\n", PIECE_LINES)[:PIECE_LINES]) + b"\n"


def _start_of_last_lines(data: bytes) -> int:
    """Return where the last `MAX_LINES` whole lines of `data` begin; the first line may be incomplete."""
    at = len(data)
    for _ in range(MAX_LINES):
        newline = data.rfind(b"\n", 0, at)
        if newline < 0:
            break
        at = newline
    return at + 1 if at < len(data) else 0
