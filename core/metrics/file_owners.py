"""Which run writes a file: two runs of one program, at the same time, often write into one folder."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from core.system import procfs
from core.system.processes import TAG
from core.system.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.system.procfs import Inode

FRESH_S = 1.0
"""Who runs is looked up anew after so long."""


class FileOwners:
    """What can be told of files from who has them open, by the tags of all runs on this machine."""

    def __init__(
        self, run_id: str, folder: Path, proc: Path = PROC, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`folder`: where this run works. `clock`: any steady one, in seconds."""
        self._run_id, self._folder, self._proc, self._clock = run_id, os.path.realpath(folder), proc, clock
        self._runs: Mapping[int, str] = {}
        self._looked: float | None = None

    def is_ours(self, path: str, state: os.stat_result) -> bool:
        """Whether this file may be taken for one of this run.

        Not while another run has it open, and ours has not. Of one that nobody has open it cannot be told: it is taken,
        unless another run is at work in the same folder.
        """
        tagged = self._tagged()
        others = [pid for pid, run_id in tagged.items() if run_id != self._run_id]
        if not others:
            return True
        inode = state.st_dev, state.st_ino
        own = [pid for pid, run_id in tagged.items() if run_id == self._run_id]
        if any(inode in self._open(pid) for pid in own):
            return True
        return not any(inode in self._open(pid) or self._is_near(pid, path) for pid in others)

    def _tagged(self) -> Mapping[int, str]:
        """By pid, the runs' processes."""
        now = self._clock()
        if self._looked is None or now - self._looked >= FRESH_S:
            tags = ((pid, procfs.variable(procfs.variables(pid, self._proc), TAG)) for pid in procfs.pids(self._proc))
            self._runs, self._looked = {pid: tag for pid, tag in tags if tag is not None}, now
        return self._runs

    def _open(self, pid: int) -> set[Inode]:
        return procfs.open_files(pid, self._proc)

    def _is_near(self, pid: int, path: str) -> bool:
        """Whether it works where this run does, or where the file is."""
        where = procfs.working_dir(pid, self._proc)
        if where is None:
            return False
        return where == self._folder or os.path.realpath(path).startswith(where.rstrip("/") + "/")
