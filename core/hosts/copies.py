"""The copies of one host's runs: a run directory each, with the bytes that the files there have.

Append-only files are extended, and never read again from their beginning. A file has the modification time of the one
there as soon as it is complete: size and time tell, also after a restart, whether it is up to date. What lists need is
copied first, then live and shown runs, then the newest.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
from typing import TYPE_CHECKING

from core.hosts.run_files import MAX_WHOLE_BYTES, SMALL, TAIL_BYTES, WHOLE, is_run_name, tail_hash, travels
from core.runs.foreign import copies_folder
from core.runs.lock import try_lock
from core.schema.files import PRIVATE_FOLDER, make_folder, open_folder, open_to_append, open_to_read, write_parts
from core.schema.paths import EVENTS, SPEC_FILE
from core.system.folders import cache_of_run, make_cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from core.hosts.host_list import Host
    from core.hosts.run_files import FileState, RunEntry

LOCK = ".lock"
MAX_BYTES = 8 * 1024**3
"""Bytes of all files of all runs of a host that are copied. Those of further runs stay there."""
LISTS = 1 / 8
"""Share of them that is kept for what lists need: measurements and output stop before it."""
MAX_RUNS = 20_000
"""Runs that are copied."""
MAX_ALL_FILES = 400_000
"""Files of all runs that are copied: twenty of each."""


def folder_of(host: Host) -> Path:
    """Return the folder of the copies of a host. Another command there may mean other runs, and has another folder."""
    name = re.sub(r"[^\w.-]", "-", host.name)[:64].strip(".") or "host"
    rest = hashlib.sha256(f"{host.address}\n{host.command}".encode()).hexdigest()[:8]
    return copies_folder() / f"{name}-{rest}"


class Copies:
    """The copies of one host. Names are checked here, whoever gives them. Methods raise `OSError`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._states: dict[tuple[str, str], FileState | None] = {}
        """Size and time of the files here, as far as they were looked at."""
        self._live: set[str] = set()
        """Runs that were live when they were last listed, also by an earlier connection."""
        self._lock: int | None = None

    @property
    def is_kept(self) -> bool:
        """Whether this object keeps the copies: only one process does, also if there are several windows."""
        return self._lock is not None

    def keep(self) -> bool:
        """Become the one that keeps the copies; return whether that is so. The folder is made if there is none."""
        if self._lock is not None:
            return True
        make_cache_folder(copies_folder())
        make_folder(self.root, PRIVATE_FOLDER)
        handle = open_to_append(self.root / LOCK)
        if not try_lock(handle):
            os.close(handle)
            return False
        self._lock = handle
        self._states.clear()
        return True

    def leave(self) -> None:
        """Let another process keep the copies."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def names(self) -> list[str]:
        """Return the names of the runs that there are copies of."""
        return [name for name in os.listdir(self.root) if is_run_name(name) and (self.root / name).is_dir()]  # noqa: PTH208 (names only)

    def state(self, run: str, file: str) -> FileState | None:
        """Return size and time of a file here; None if there is none."""
        if (run, file) not in self._states:
            try:
                status = os.lstat(self._path(run, file))
                self._states[run, file] = status.st_size, status.st_mtime_ns
            except FileNotFoundError:
                self._states[run, file] = None
        return self._states[run, file]

    def tail(self, run: str, file: str) -> tuple[int, str]:
        """Return the size of a file here, and by what its end is recognised; 0 if there is none."""
        known = self.state(run, file)
        if known is None:
            return 0, ""
        with open_to_read(self._path(run, file)) as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - TAIL_BYTES))
            return size, tail_hash(opened.read())

    def append(self, run: str, file: str, offset: int, data: bytes) -> None:
        """Add bytes to a file that has `offset` bytes. What could be written of them counts, also on an error."""
        path = self._path(run, file)
        self._make_folders(run)
        handle = open_to_append(path)
        try:
            if os.fstat(handle).st_size != offset:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))  # another program has written it
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)
            self._states.pop((run, file), None)

    def replace(self, run: str, file: str, data: bytes) -> None:
        """Write a file as a whole."""
        self._make_folders(run)
        write_parts(self._path(run, file), [data])
        self._states.pop((run, file), None)

    def complete(self, run: str, file: str, size: int, mtime: int) -> None:
        """Give a file the time of the one there, now that it has all bytes."""
        os.utime(self._path(run, file), ns=(mtime, mtime))
        self._states[run, file] = size, mtime  # which the file system here may round

    def announce(self, run: str) -> None:
        """Tell readers of a run that is over that its files have changed: they look at the time of its folder."""
        with contextlib.suppress(OSError):  # it is gone, or the disk does not answer: the copy itself is kept
            os.utime(self._folder(run))

    def note_life(self, run: str, *, live: bool) -> None:
        """Announce a run once it is over: its last bytes may have arrived while it was still listed as live."""
        if live:
            self._live.add(run)
        elif run in self._live:
            self.announce(run)
            self._live.discard(run)

    def drop(self, run: str, file: str) -> None:
        self._path(run, file).unlink(missing_ok=True)
        self._states.pop((run, file), None)

    def remove(self, run: str) -> None:
        """Remove a run. Does not raise: what is left is removed another time."""
        shutil.rmtree(self._folder(run), ignore_errors=True)
        shutil.rmtree(cache_of_run(self._folder(run)), ignore_errors=True)
        self._forget(run)

    def rename(self, run: str, name: str) -> None:
        """Give the folder of a run another name, if there is one and none of that name."""
        folder, other = self._folder(run), self._folder(name)
        if folder.is_dir() and not other.exists():
            folder.rename(other)
        self._forget(run)

    def _forget(self, run: str) -> None:
        self._states = {key: state for key, state in self._states.items() if key[0] != run}
        self._live.discard(run)

    def _folder(self, run: str) -> Path:
        if not is_run_name(run):
            raise ValueError(run)
        return self.root / run

    def _path(self, run: str, file: str) -> Path:
        if not travels(file):
            raise ValueError(file)
        return self._folder(run) / file

    def _make_folders(self, run: str) -> None:
        folder = self._folder(run)
        for each in (folder, folder / EVENTS):
            with contextlib.suppress(FileExistsError):
                each.mkdir(PRIVATE_FOLDER)
        os.close(open_folder(folder / EVENTS))


class Plan:
    """The runs of the host, and which of their files differ from the copies."""

    def __init__(self, copies: Copies, max_bytes: int = MAX_BYTES) -> None:
        self.entries: dict[str, RunEntry] = {}
        self.wanted: AbstractSet[str] = frozenset()
        """Runs whose measurements are wanted before those of others."""
        self._copies, self._max_bytes = copies, max_bytes
        self._files = 0
        """Files of all entries."""
        self._pending: dict[str, set[str]] = {}
        self._unreadable: set[tuple[str, str, int, int]] = set()
        """Files that could not be read there, and their states then."""

    def put(self, run: str, entry: RunEntry) -> bool:
        """Take what is known of a run now; return whether it is one that can be copied. Raises `OSError`."""
        known = len(self.entries[run].files) if run in self.entries else 0
        files = self._files + len(entry.files) - known
        if (run not in self.entries and len(self.entries) >= MAX_RUNS) or files > MAX_ALL_FILES:
            return False
        self.entries[run], self._files = entry, files
        self.look(run)
        return True

    def look(self, run: str) -> None:
        """Compare the files of a run with the copies again. Raises `OSError`."""
        entry = self.entries.get(run)
        pending = set() if entry is None else {file for file in entry.files if self._differs(run, file, entry)}
        if pending:
            self._pending[run] = pending
        else:
            self._pending.pop(run, None)

    def forget(self, run: str) -> None:
        """Forget a run that is gone."""
        if (entry := self.entries.pop(run, None)) is not None:
            self._files -= len(entry.files)
        self._pending.pop(run, None)

    def give_up(self, run: str, file: str) -> None:
        """Do not ask for a file again that could not be read there, until it has changed."""
        entry = self.entries.get(run)
        if entry is not None and file in entry.files:
            self._unreadable.add((run, file, *entry.files[file]))
            self.look(run)

    def is_settled(self, run: str) -> bool:
        """Return whether all files that lists need are up to date."""
        return not self._pending.get(run, set()) & SMALL

    def is_whole(self, run: str) -> bool:
        """Return whether all files of a run are up to date."""
        return run not in self._pending

    def left(self) -> int:
        """Return the number of runs that are not up to date."""
        return len(self._pending)

    def is_full(self) -> bool:
        """Return whether the runs there have more measurements than are copied."""
        return bool(self._pending) and self._free_bytes() <= self._max_bytes * LISTS

    def next(self, count: int) -> list[tuple[str, str]]:
        """Return which files to read from next, up to so many, within the limit of bytes.

        The runs that are shown may take as much again.
        """
        free = self._free_bytes()
        names = sorted(self._pending, reverse=True)
        if free <= 0:
            names = [run for run in names if run in self.wanted] if free > -self._max_bytes else []
        first = sorted(names, key=self._rank)
        found: list[tuple[str, str]] = []
        for run in first:
            small = sorted(self._pending[run] & SMALL, key=lambda file: file == SPEC_FILE)
            found += [(run, file) for file in small][: count - len(found)]
            if self._rank(run) == 0:  # a curve that is being watched does not wait for the lists of others
                found += self._large(run, count - len(found))
            if len(found) >= count:
                return found
        if not any(self._pending[run] & SMALL for run in first) and free > self._max_bytes * LISTS:
            for run in first:
                if self._rank(run):
                    found += self._large(run, count - len(found))
        return found

    def _free_bytes(self) -> int:
        """Return the bytes that may still be copied."""
        states = (self._copies.state(run, file) for run, entry in self.entries.items() for file in entry.files)
        return self._max_bytes - sum(state[0] for state in states if state is not None)

    def _rank(self, run: str) -> int:
        return 0 if run in self.wanted else 1 if self.entries[run].live else 2

    def _large(self, run: str, count: int) -> list[tuple[str, str]]:
        return [(run, file) for file in sorted(self._pending[run] - SMALL)][: max(count, 0)]

    def _differs(self, run: str, file: str, entry: RunEntry) -> bool:
        state = entry.files[file]
        if (run, file, *state) in self._unreadable or (file in WHOLE and state[0] > MAX_WHOLE_BYTES):
            return False
        return self._copies.state(run, file) != state


def renamed(
    entries: Mapping[str, RunEntry], gone: Iterable[str], new: Mapping[str, RunEntry]
) -> Iterator[tuple[str, str]]:
    """Yield the old and the new name of each run whose folder was renamed there."""
    by_identity = {entries[name].identity: name for name in gone if name in entries and entries[name].identity}
    for name, entry in new.items():
        if name not in entries and (old := by_identity.pop(entry.identity, None)) is not None:
            yield old, name
