"""The runs there: which there are, what is known of their processes, how large their files are, and parts of files."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.history.index import directories, is_run
from core.hosts.run_files import MAX_FILES, TAIL_BYTES, FilePart, FileParts, RunEntry, is_run_name, tail_hash, travels
from core.language import tr
from core.runs import stopped
from core.runs.facts import RunState, state_info
from core.runs.owners import owner_of_run
from core.runs.run import Run, folders_mark, stat_of
from core.schema.codec import encode
from core.schema.files import open_to_read
from core.schema.paths import EVENTS, GUARD_EVENTS, LOG_FILE, NOTIFICATION_EVENTS, SUPERVISOR_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.hosts.agent.server import Request
    from core.hosts.run_files import FileState

MIN_PERIOD_S, MAX_PERIOD_S = 0.05, 60.0
"""Limits of the time between two looks."""
NEWEST = 50
"""The newest runs, at which every look looks, as at those that are not over."""
LOOKED_AT, LOOK_S = 50, 0.004
"""Older runs at which every look looks in turn, and seconds in which it looks at more."""
PAGE_FILES = 2000
"""Files in one item of a stream, or those of one run."""
PART_BYTES = 512 * 1024
"""Bytes of files in one answer, before they are compressed."""
MAX_READS = 512
"""Files that are asked for at once."""


def runs(request: Request) -> Iterator[dict[str, Any]]:
    """Yield the runs that are new or have changed, and the names of those that are gone. `period_s`: between looks.

    The item with `complete` is the last one of the first look: runs that were not named by then do not exist.
    """
    period_s = request.terms.get("period_s", 0.25)
    if not isinstance(period_s, (int, float)) or not MIN_PERIOD_S <= period_s <= MAX_PERIOD_S:
        raise ValueError(
            tr("Runs cannot be looked at every {period} s. Ask for {least:g} to {most:g} s.", period=period_s,
               least=MIN_PERIOD_S, most=MAX_PERIOD_S)
        )
    watch = _Watch(request.runs_root)
    while not request.cancelled.is_set():
        yield from watch.look()
        request.cancelled.wait(period_s)


def read(request: Request) -> dict[str, Any]:
    """Return parts of files. `reads`: run, file, offset, and the hash of the `TAIL_BYTES` before it, for each.

    Later ones are left out when the answer is full.
    """
    reads = request.terms.get("reads")
    if not isinstance(reads, list) or len(reads) > MAX_READS:
        raise ValueError(tr("These are no parts of files."))
    parts: list[FilePart] = []
    left = PART_BYTES
    for each in reads:
        if left <= 0:
            break
        part, size = _part(request.runs_root, each, left)
        parts.append(part)
        left -= size
    return encode(FileParts(parts=tuple(parts)))


def run_folder(root: Path, name: object) -> Path:
    """Return the folder of a run of this name. Raises `ValueError` with a sentence if there is none."""
    if not is_run_name(name) or not is_run(path := root / str(name)):
        raise ValueError(tr("There is no run {name!r} in {root}.", name=name, root=root))
    return path


def _part(root: Path, wanted: object, most: int) -> tuple[FilePart, int]:
    """Return the part of a file from an offset on, of up to `most` bytes, and its size."""
    name, file, offset, tail = wanted if isinstance(wanted, list) and len(wanted) == 4 else (None,) * 4
    if (
        not isinstance(name, str)
        or not isinstance(file, str)
        or not travels(file)
        or not isinstance(offset, int)
        or offset < 0
    ):
        raise ValueError(tr("These are no parts of files."))
    if not is_run_name(name):
        raise ValueError(tr("There is no run {name!r} in {root}.", name=name, root=root))
    try:
        with open_to_read(root / name / file) as opened:
            begin = max(0, offset - TAIL_BYTES)
            opened.seek(begin)
            before = opened.read(offset - begin)
            if len(before) < offset - begin or (before and tail_hash(before) != tail):
                return FilePart(changed=True), 0
            data = opened.read(most)
            status = os.fstat(opened.fileno())
    except OSError as error:
        return FilePart(error=error.strerror or str(error)), 0
    return FilePart.packed(status.st_size, status.st_mtime_ns, data), len(data)


@dataclass(slots=True)
class _Seen:
    """A run as it was at the last look."""

    run: Run | None
    """None for one that is over."""
    mark: object
    entry: RunEntry


class _Watch:
    """Looks at the runs below a folder, at those that are over only in turn."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[str, _Seen] = {}
        self._is_complete = False
        self._next = 0

    def look(self) -> Iterator[dict[str, Any]]:
        """Yield what has changed since the last look, in items of a bounded size."""
        names = self._names()
        present = set(names)
        item: dict[str, Any] = {"runs": {}, "gone": [name for name in self._seen if name not in present]}
        for name in item["gone"]:
            del self._seen[name]
        files = 0
        for name in self._due(names):
            entry = self._news(name)
            if entry is None:
                continue
            item["runs"][name] = encode(entry)
            files += len(entry.files) + 1
            if files >= PAGE_FILES:
                yield item
                item, files = {"runs": {}, "gone": []}, 0
        if not self._is_complete:
            self._is_complete = True
            yield {**item, "complete": True}
        elif item["runs"] or item["gone"]:
            yield item

    def _names(self) -> list[str]:
        """Return the names of the runs, the newest first."""
        try:
            names = os.listdir(self._root)  # noqa: PTH208 (names only)
        except FileNotFoundError:
            return []
        except OSError:
            return [path.name for path in directories(self._root)]  # it raises the sentence
        names = [name for name in names if is_run_name(name)]
        return sorted((name for name in names if name in self._seen or is_run(self._root / name)), reverse=True)

    def _due(self, names: list[str]) -> Iterator[str]:
        """Yield the runs to look at now."""
        yield from names[:NEWEST]
        older = names[NEWEST:]
        if not self._is_complete:
            yield from older
            return
        yield from [name for name in older if name not in self._seen or self._seen[name].run is not None]
        first = self._next if self._next < len(older) else 0
        until, self._next = time.monotonic() + LOOK_S, first
        for name in older[first:]:
            if self._next >= first + LOOKED_AT and time.monotonic() > until:
                break
            self._next += 1
            yield name

    def _news(self, name: str) -> RunEntry | None:
        """Return what is to be said of a run; None if nothing has changed."""
        path, seen = self._root / name, self._seen.get(name)
        mark = _mark(path)
        if seen is not None and seen.run is None and seen.mark == mark:
            return None
        run = (seen.run if seen is not None else None) or Run(path, only=(SUPERVISOR_EVENTS,))
        entry = _entry(path, run)
        if seen is not None and entry == seen.entry:
            return None
        self._seen[name] = _Seen(None if state_info(run.facts.state).over else run, mark, entry)
        return entry


def _entry(path: Path, run: Run) -> RunEntry:
    """Return what is known of a run. Its processes are looked at first: what they wrote before their end is counted."""
    run.catch_up()
    facts, identity = run.facts, ""
    is_live = not state_info(facts.state).over
    with contextlib.suppress(OSError):
        status = os.stat(path)  # noqa: PTH116 (several times a second)
        identity = f"{status.st_dev}-{status.st_ino}"
    return RunEntry(
        identity=identity, live=is_live, lost=(facts.error or "") if facts.state is RunState.LOST else "",
        stopped=stopped.sentences(path, facts) if is_live else "", owner=owner_of_run(path) or "", files=_files(path),
    )


def _files(path: Path) -> dict[str, FileState]:
    """Return size and time of each file of a run that travels."""
    found: dict[str, FileState] = {}
    for folder, prefix in ((path, ""), (path / EVENTS, f"{EVENTS}/")):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:  # it was removed just now, or is damaged
            for each in entries:
                name = prefix + each.name
                if travels(name) and each.is_file(follow_symlinks=False) and len(found) < MAX_FILES:
                    status = each.stat(follow_symlinks=False)
                    found[name] = status.st_size, status.st_mtime_ns
    return found


def _mark(path: Path) -> object:
    """Return sizes and times of what changes when a run that is over does."""
    files = (SUPERVISOR_EVENTS, GUARD_EVENTS, NOTIFICATION_EVENTS)
    return folders_mark(path), [stat_of(f"{path}/{EVENTS}/{name}") for name in files], stat_of(f"{path}/{LOG_FILE}")
