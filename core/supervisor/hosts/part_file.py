"""A file of a part on another machine, read from an offset on."""

from __future__ import annotations

from dataclasses import dataclass

from core.hosts.run_files import TAIL_BYTES

MAX_LINE_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class PartFile:
    """A file of a part, as far as it has been read."""

    name: str
    offset: int = 0
    tail: bytes = b""
    rest: bytes = b""
    """The beginning of a line that is not whole yet."""
    is_settled: bool = False
    """Whether the last answer reached its end."""

    def take(self, data: bytes) -> list[bytes]:
        """Add what was read next; return the lines that are whole now. Raises `ValueError` for an endless line."""
        self.offset += len(data)
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > MAX_LINE_BYTES:
            raise ValueError
        return lines
