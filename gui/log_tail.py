"""The end of a text file as it grows, in bounded pieces, as a terminal would show it."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1024 * 1024
"""So much of the end is shown; what comes faster than that is passed over."""
MOST_LINE = 4000
"""Characters of a line; a longer one is cut."""
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\ufdd0\ufdd1]")
"""Also those that Qt takes for the end of a line or of a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is new: lines that are complete, and the one that is still being written."""

    lines: tuple[str, ...]
    pending: str


class LogTail:
    """Follows one file. It may not exist yet, and may be cut off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._pending = ""
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode

    def read(self) -> News | None:
        """What was written since the last call; None when nothing was."""
        data, passed_over = self._read_bytes()
        if not data:
            return None
        *whole, rest = (self._pending + self._decode(data)).split("\n")
        if passed_over:
            whole = [f"[… what came before is in {self.path}]", *whole[1:]]
        self._pending = rest if len(rest) < MOST_BYTES else rest[-MOST_LINE:]
        return News(lines=tuple(settle(line) for line in whole), pending=settle(self._pending))

    def _read_bytes(self) -> tuple[bytes, bool]:
        """The new bytes, and whether some before them were passed over."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                start = self._offset if self._offset <= size else 0
                begin = max(start, size - MOST_BYTES)
                file.seek(begin)
                data = file.read(MOST_BYTES)
        except OSError:
            return b"", False
        cut_off = start < self._offset
        self._offset = begin + len(data)
        if begin > start or cut_off:
            self._pending = ""
            self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        return data, begin > start


def settle(line: str) -> str:
    """A line as a terminal leaves it: after the last carriage return, without colours and control characters."""
    last = line.rstrip("\r").rpartition("\r")[2]
    plain = CONTROLS.sub("", ESCAPES.sub("", last))
    return plain if len(plain) <= MOST_LINE else plain[:MOST_LINE] + " …"
