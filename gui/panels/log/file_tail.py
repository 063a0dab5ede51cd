"""The end of a text file as it grows, in bounded pieces."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .terminal import readable

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1024 * 1024
"""So much of the end is shown; what comes faster than it is taken in is passed over."""
KEPT_BYTES = MAX_BYTES // 4
"""So much of the end is gone on with then: less, or at the next piece it would be too much again."""
MAX_LINES = 5000
PIECE_BYTES, PIECE_LINES = 16384, 400
"""More is not read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Some text that follows on what was read before."""

    text: str
    anew: bool
    """It does not: the file was cut off, or something was passed over."""
    passed_over: bool
    """There is something before it that was not read."""


class FileTail:
    """Follows one file. It may not exist yet, and may be cut off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self, max_bytes: int = PIECE_BYTES, *, may_pass_over: bool = True) -> LogPiece | None:
        """The next of what was written since the last call; None when there is nothing.

        `may_pass_over`: when there is too much, some of it is left out.
        """
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                before, begin = self._offset, self._offset
                if size < self._offset:
                    begin = 0
                if may_pass_over and size - begin > MAX_BYTES:
                    file.seek(size - (MAX_BYTES if before == 0 else KEPT_BYTES))
                    begin = file.tell() + _off_the_last_lines(file.read(MAX_BYTES))
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
        return LogPiece(text=text, anew=begin != before, passed_over=begin > 0 and begin != before)


def _first_lines(data: bytes) -> bytes:
    """Not more than `PIECE_LINES` of them."""
    if data.count(b"\n") <= PIECE_LINES:
        return data
    return b"\n".join(data.split(b"\n", PIECE_LINES)[:PIECE_LINES]) + b"\n"


def _off_the_last_lines(data: bytes) -> int:
    """Where in `data` the last whole lines begin, as many as are shown. A line may have begun before."""
    at = len(data)
    for _ in range(MAX_LINES):
        newline = data.rfind(b"\n", 0, at)
        if newline < 0:
            break
        at = newline
    return at + 1 if at < len(data) else 0
