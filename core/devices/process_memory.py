"""Memory of processes and all their descendants, read from `/proc` cheaply enough for twice a second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.system import procfs
from core.system.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

TREE_S = 2.0
"""Seconds for which a list of descendants is reused: finding them costs far more than reading their memory."""


class ProcessMemory:
    """The resident set of some processes and of all their descendants."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.pids = frozenset(pids)
        self._roots = {pid: started for pid in self.pids if (started := _started(pid)) is not None}
        self._tree: set[int] = set()
        self._tree_until = 0.0

    def resident_bytes(self) -> int:
        """Return the sum of the resident sets, 0 if all have ended. Shared pages count once per process."""
        now = time.monotonic()
        if now >= self._tree_until:
            self._tree = descendants(self._living())
            self._tree_until = now + TREE_S
        return sum(procfs.resident_bytes(pid) or 0 for pid in self._tree)

    def _living(self) -> list[int]:
        # A pid alone is not trusted: the number may belong to another process by now.
        return [pid for pid, started in self._roots.items() if _started(pid) == started]


def descendants(pids: Iterable[int]) -> set[int]:
    """Return the processes, their children, their children's children, and so on."""
    children = _children_of_tasks if (PROC / "thread-self" / "children").exists() else _children_by_scan()
    found: set[int] = set()
    todo = list(pids)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children(pid))
    return found


def _children_of_tasks(pid: int) -> list[int]:
    """Read the kernel's own lists, one per thread; not every kernel was built with them."""
    return [int(child) for file in PROC.glob(f"{pid}/task/*/children") for child in _text(file).split()]


def _children_by_scan() -> Callable[[int], list[int]]:
    """Read the parent of every process once, and return the look-up."""
    children: dict[int, list[int]] = {}
    for pid in procfs.pids():
        if (stat := procfs.stat(pid)) is not None:
            children.setdefault(stat.parent, []).append(pid)
    return lambda pid: children.get(pid, [])


def _started(pid: int) -> int | None:
    stat = procfs.stat(pid)
    return None if stat is None else stat.ticks


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # the process has ended
