"""A file that a program writes while we read it: what is new of it, and whether it began anew."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES = 256 * 1024
"""So much is read at a time: what a source does in one call stays short, however much there is."""
MARK_BYTES = 64
"""So much of what was read last is compared before reading on: a file written anew in its place differs there."""
HEAD_BYTES = 512

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Growing:
    """Bytes of a regular file from an offset on. Anything else of that name, a pipe say, is never opened.

    A file that was cut, replaced or written anew is read from its beginning, with `restarted` set for
    that one call. A file that is not there is one to which nothing was added.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: how many bytes of it to pass over, as they were there before."""
        self.path = path
        self.offset = offset
        self.restarted = False
        self.more = False
        """Whether the last read left something."""
        self.trouble = ""
        """Why the file, which is there, could not be read, in a sentence; "" when it could."""
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, ...] = ()
        self._head = self._mark = b""

    def read(self, max_bytes: int = BLOCK_BYTES, *, again: bool = False) -> bytes:
        """What there is from `offset` on, at most so much. b"" when nothing was written since the last call that
        reached the end; with `again` what was left there then is given once more."""
        self.restarted = self.more = False
        try:
            data = self._read(max_bytes, again=again)
        except (FileNotFoundError, NotADirectoryError):
            self.trouble = ""
            return b""
        except OSError as error:
            self.trouble = f"{self.path} cannot be read: {error.strerror or error}. What it holds is missing here."
            return b""
        self.trouble = ""
        return data

    def advance(self, data: bytes, size: int) -> None:
        """The first `size` bytes of `data`, what `read` gave, need not be read again."""
        if not size:
            return
        begin = self.offset
        if begin < HEAD_BYTES:
            self._head = self._head[:begin] + data[: min(size, HEAD_BYTES - begin)]
        self._mark = (self._mark + data[max(0, size - MARK_BYTES) : size])[-MARK_BYTES:]
        self.offset += size

    def skip(self, size: int) -> bool:
        """Pass over so many bytes unread; False when the file is not that long yet."""
        try:
            if os.stat(self.path).st_size < self.offset + size:  # noqa: PTH116
                return False
        except OSError:
            return False
        self.offset += size
        self._mark, self._seen = b"", ()
        return True

    def _read(self, max_bytes: int, *, again: bool) -> bytes:
        found = os.stat(self.path)  # noqa: PTH116 (asked several times a second)
        # Asked before it is opened: opening a pipe would let its writer go on.
        if not stat.S_ISREG(found.st_mode):
            return b""
        if _state(found) == self._seen and not again:
            return b""
        handle = os.open(self.path, _OPEN)
        try:
            found = os.fstat(handle)
            return self._read_open(handle, found, max_bytes) if stat.S_ISREG(found.st_mode) else b""
        finally:
            os.close(handle)

    def _read_open(self, handle: int, found: os.stat_result, max_bytes: int) -> bytes:
        if self._is_another(handle, found):
            self.offset, self._head, self._mark, self.restarted = 0, b"", b"", True
        self._file = (found.st_dev, found.st_ino)
        data = os.pread(handle, max_bytes, self.offset)
        self.more = self.offset + len(data) < found.st_size
        self._seen = () if self.more else _state(found)
        return data

    def _is_another(self, handle: int, found: os.stat_result) -> bool:
        if found.st_size < self.offset or (self._file is not None and self._file != (found.st_dev, found.st_ino)):
            return True
        # Cut and written anew since, it may be as long by now: then what was read is not what it says there.
        head, mark = self._head, self._mark
        return os.pread(handle, len(head), 0) != head or os.pread(handle, len(mark), self.offset - len(mark)) != mark


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
