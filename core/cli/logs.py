"""Read what the ranks of a run have printed as lines: of a progress bar only the last state, as the window shows it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from core.diagnosis.terminal import SCREEN, Terminal, TerminalLine
from core.schema.files import is_regular, open_to_read
from core.schema.paths import RANK_LOGS, log_of_rank

PIECE_BYTES = 256 * 1024
END_BYTES = 16 * 1024 * 1024
"""Bytes of the end of a log that are enough for its last lines."""
MAX_LINE = 1024 * 1024
"""Characters of a line; more are cut."""


def ranks_with_log(run_dir: Path) -> list[int]:
    """Return the ranks that have a log of their own, and always rank 0."""
    numbers = (path.name.split(".")[1] for path in run_dir.glob(RANK_LOGS))
    return [0, *sorted(int(each) for each in numbers if each.isdecimal())]


class RankLog:
    """The log of one rank, which may not exist yet, and may grow."""

    def __init__(self, run_dir: Path, rank: int, *, only_end: bool = False) -> None:
        """`only_end`: begin within the last lines that are there."""
        self._path = log_of_rank(run_dir, rank)
        self.offset = max(self._path.lstat().st_size - END_BYTES, 0) if only_end and is_regular(self._path) else 0
        """Bytes up to which it was read."""
        self._terminal = Terminal(MAX_LINE)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._lines = [TerminalLine(MAX_LINE)]  # as on the screen

    @property
    def unfinished(self) -> str:
        """The last text of the lines that are not complete, such as a progress bar."""
        return next((line.text for line in reversed(self._lines) if line.text.strip()), "")

    def new_lines(self, *, is_last: bool) -> Iterator[str]:
        """Yield the lines that are complete and were not yielded yet. A line that changes later comes again.

        `is_last`: also yield those that are not complete. Raises `OSError` if the file cannot be read.
        """
        more = True
        while more:
            data = self._read()
            more = len(data) == PIECE_BYTES
            change = self._terminal.feed(self._decoder.decode(data, final=is_last and not more))
            del self._lines[max(len(self._lines) - change.replaced, 0) :]
            self._lines += change.lines
            kept = SCREEN if more else 0 if is_last else self._terminal.open_lines
            if not kept and self._lines and not self._lines[-1].size:
                self._lines.pop()  # what follows the last newline
            complete = max(len(self._lines) - kept, 0)
            yield from [line.text for line in self._lines[:complete]]
            del self._lines[:complete]

    def _read(self) -> bytes:
        data = b""
        with suppress(FileNotFoundError), open_to_read(self._path) as file:
            if file.seek(0, 2) < self.offset:  # it was emptied
                self.offset = 0
            file.seek(self.offset)
            data = file.read(PIECE_BYTES)
            self.offset += len(data)
        return data
