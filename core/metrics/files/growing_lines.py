"""The lines of a file that a program writes while we read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.metrics.files.growing import BLOCK_BYTES, Growing

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_BYTES = BLOCK_BYTES
"""A line as long as a block is no line of a log: it is passed over."""


class GrowingLines:
    """Whole lines, in order, each once. A torn last line is read when its end has been written."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: the end of a line; what is before it was there before the run."""
        self.path = path
        self._file = Growing(path, offset)
        self._in_long_line = False

    @property
    def restarted(self) -> bool:
        """Whether the file began anew with the lines that were read last: it was cut, replaced or written anew."""
        return self._file.restarted

    @property
    def more(self) -> bool:
        """Whether the last read left something."""
        return self._file.more

    @property
    def trouble(self) -> str:
        """Why the file could not be read, in a sentence; "" when it could."""
        return self._file.trouble

    def read(self, *, ended: bool = False) -> list[bytes]:
        """The lines that were completed since the last call, without their ends; at most a block of them.

        With `ended`, the writer is gone: then the last line needs no end.
        """
        data = self._file.read(again=ended)
        if self.restarted:
            self._in_long_line = False
        size = data.rfind(b"\n") + 1
        if (not size and len(data) >= LONGEST_BYTES) or (ended and not self.more):
            size = len(data)
        self._file.advance(data, size)
        return self._whole(data[:size])

    def _whole(self, data: bytes) -> list[bytes]:
        if self._in_long_line:
            begin = data.find(b"\n") + 1
            if not begin:
                return []
            data, self._in_long_line = data[begin:], False
        if len(data) >= LONGEST_BYTES and b"\n" not in data:
            self._in_long_line = True
            return []
        return [line for line in data.replace(b"\r", b"").split(b"\n") if line.strip()]
