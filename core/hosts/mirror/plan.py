"""Which parts of which files are to be copied next: what lists need, then live and shown runs, then the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.hosts.run_files import MAX_WHOLE_BYTES, SMALL, WHOLE
from core.schema.paths import SPEC_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from core.hosts.mirror.copies import Copies
    from core.hosts.mirror.entries import RunEntry

MAX_BYTES = 8 * 1024**3
"""Bytes of measurements and output of all runs of a host that are copied. Those of further runs stay there."""
MAX_RUNS = 20_000
"""Runs that are copied."""


class Plan:
    """The runs of the host, and which of their files differ from the copies."""

    def __init__(self, copies: Copies, max_bytes: int = MAX_BYTES) -> None:
        self.entries: dict[str, RunEntry] = {}
        self.wanted: AbstractSet[str] = frozenset()
        """Runs whose measurements are wanted before those of others."""
        self._copies, self._max_bytes = copies, max_bytes
        self._pending: dict[str, set[str]] = {}
        self._unreadable: set[tuple[str, str, int, int]] = set()
        """Files that could not be read there, and their states then."""

    def put(self, run: str, entry: RunEntry) -> bool:
        """Take what is known of a run now; return whether it is one that can be copied. Raises `OSError`."""
        if run not in self.entries and len(self.entries) >= MAX_RUNS:
            return False
        self.entries[run] = entry
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
        self.entries.pop(run, None)
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
        return bool(self._pending) and self.total_bytes() >= self._max_bytes

    def next(self, count: int) -> list[tuple[str, str]]:
        """Return which files to read from next, up to so many. Files with measurements stop at the limit of bytes."""
        names = sorted(self._pending, reverse=True)
        first = sorted(names, key=self._rank)
        found: list[tuple[str, str]] = []
        for run in first:
            small = sorted(self._pending[run] & SMALL, key=lambda file: file == SPEC_FILE)
            found += [(run, file) for file in small][: count - len(found)]
            if self._rank(run) == 0:  # a curve that is being watched does not wait for the lists of others
                found += self._large(run, count - len(found))
            if len(found) >= count:
                return found
        if not any(self._pending[run] & SMALL for run in first) and self.total_bytes() < self._max_bytes:
            for run in first:
                if self._rank(run):
                    found += self._large(run, count - len(found))
        return found

    def total_bytes(self) -> int:
        """Return the bytes of measurements and output that are copied."""
        return sum(
            (self._copies.state(run, file) or (0, 0))[0]
            for run, entry in self.entries.items()
            for file in entry.files
            if file not in SMALL
        )

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
    entries: Mapping[str, RunEntry], gone: AbstractSet[str], new: Mapping[str, RunEntry]
) -> Iterator[tuple[str, str]]:
    """Yield the old and the new name of each run whose folder was renamed there."""
    by_identity = {entries[name].identity: name for name in gone if name in entries and entries[name].identity}
    for name, entry in new.items():
        if name not in entries and (old := by_identity.pop(entry.identity, None)) is not None:
            yield old, name
