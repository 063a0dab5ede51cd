"""Read a file while a program writes it, and detect when the program starts it again from the beginning."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from core.language import tr
from core.metrics.reading import Reading
from core.schema.files import open_to_read

BLOCK_BYTES = 256 * 1024
"""Bytes to read in one call: each call stays short, however large the file is."""
MARK_BYTES = 64
"""Bytes before the offset that are compared before the next read: a rewritten file differs there."""
HEAD_BYTES = 512
"""Bytes at the start of the file that are compared as well."""


class GrowingFile:
    """The bytes of a regular file from an offset on. Pipes and devices are never opened.

    A file that was truncated, replaced or rewritten is read from its beginning, and `restarted` is True
    after that call. A missing file counts as one without new bytes.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: how many bytes to skip because they were there before the run."""
        self.path = path
        self.offset = offset
        self.restarted = False
        self.more = False
        """Whether the last read left bytes unread."""
        self.trouble = ""
        """A sentence that says why the existing file could not be read; "" if it could."""
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, ...] = ()
        self._head = self._mark = b""

    def read(self, max_bytes: int = BLOCK_BYTES, *, again: bool = False) -> bytes:
        """Return at most `max_bytes` bytes from `offset` on.

        Returns b"" if the file has not changed since a call that reached its end. With `again`, the bytes after
        `offset` are returned even then.
        """
        self.restarted = self.more = False
        try:
            data = self._read(max_bytes, again=again)
        except (FileNotFoundError, NotADirectoryError):
            self.trouble = ""
            return b""
        except OSError as error:
            self.trouble = tr("{path} cannot be read: {strerror}. Its metrics are missing here.",
                              path=self.path, strerror=error.strerror or error)
            return b""
        self.trouble = ""
        return data

    def advance(self, data: bytes, size: int) -> None:
        """Move `offset` past the first `size` bytes of `data`, the result of the last `read`."""
        if not size:
            return
        begin = self.offset
        if begin < HEAD_BYTES:
            self._head = self._head[:begin] + data[: min(size, HEAD_BYTES - begin)]
        self._mark = (self._mark + data[max(0, size - MARK_BYTES) : size])[-MARK_BYTES:]
        self.offset += size

    def skip(self, size: int) -> bool:
        """Skip `size` bytes without reading them. Return False if the file is not that long yet."""
        try:
            if os.stat(self.path).st_size < self.offset + size:  # noqa: PTH116
                return False
        except OSError:
            return False
        self.offset += size
        self._mark, self._seen = b"", ()
        return True

    def _read(self, max_bytes: int, *, again: bool) -> bytes:
        found = os.stat(self.path)  # noqa: PTH116 (called several times a second)
        # Check before opening: opening a pipe would let its writer continue.
        if not stat.S_ISREG(found.st_mode):
            return b""
        if _state(found) == self._seen and not again:
            return b""
        with open_to_read(self.path, follow_link=True) as file:
            handle, found = file.fileno(), os.fstat(file.fileno())
            if self._is_rewritten(handle, found):
                self.offset, self._head, self._mark, self.restarted = 0, b"", b"", True
            self._file = (found.st_dev, found.st_ino)
            data = os.pread(handle, max_bytes, self.offset)
        self.more = self.offset + len(data) < found.st_size
        self._seen = () if self.more else _state(found)
        return data

    def _is_rewritten(self, handle: int, found: os.stat_result) -> bool:
        if found.st_size < self.offset or (self._file is not None and self._file != (found.st_dev, found.st_ino)):
            return True
        # A file rewritten in place may already be as long as before: compare the bytes that were read.
        head, mark = self._head, self._mark
        return os.pread(handle, len(head), 0) != head or os.pread(handle, len(mark), self.offset - len(mark)) != mark


class GrowingSource:
    """A file of metrics that is read while it grows."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: the end of a record, or of a line; the bytes before it were there before the run."""
        self.path = path
        self._file = GrowingFile(path, offset)
        self._problem = ""

    def poll(self, *, ended: bool = False) -> list[Reading]:
        """Return the new readings, at most a block: see `more`. `ended`: the program has exited."""
        raise NotImplementedError

    @property
    def more(self) -> bool:
        """Whether the last poll left something that can be read now."""
        return self._file.more

    @property
    def trouble(self) -> str:
        """A sentence that says what is wrong with the file; "" if nothing is."""
        return self._problem or self._file.trouble

    def _note_damage(self) -> None:
        self._problem = tr(
            "{path} has damaged records. They are skipped, and their metrics are missing here.", path=self.path
        )


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
