"""Find out which run writes a file: two simultaneous runs of one program often write into one folder."""

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

CACHE_S = 1.0
"""Seconds after which the processes of all runs are listed again."""
TIME_STEP_S = 0.1
"""Seconds by which the time of a file may be too early: file systems count in steps."""


class FileOwners:
    """Assigns files to runs by the processes that have them open, found by the environment tags of all runs."""

    def __init__(
        self, run_id: str, folder: Path, proc: Path = PROC, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`folder`: the working folder of this run. `clock`: monotonic, in seconds."""
        self._run_id, self._folder, self._proc, self._clock = run_id, os.path.realpath(folder), proc, clock
        self._runs: Mapping[int, str] = {}
        self._listed: float | None = None
        self._listed_at = 0.0
        """The unix time of the listing."""

    def is_ours(self, path: str, state: os.stat_result) -> bool:
        """Return whether this file may belong to this run.

        A file that only another run has open does not. A file that no run has open does, unless another run works in
        the same folder.
        """
        # The caller does not ask again about a file that is ours. So the processes must have been listed after the last
        # change of the file: its writer may belong to a run that has just started.
        answer = self._judge(path, state)
        if answer and self._listed_at <= state.st_mtime + TIME_STEP_S:
            self._listed = None
            answer = self._judge(path, state)
        return answer

    def _judge(self, path: str, state: os.stat_result) -> bool:
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
        """Return the run ids of the processes of all runs, by pid."""
        now = self._clock()
        if self._listed is None or now - self._listed >= CACHE_S:
            tags = ((pid, procfs.variable(procfs.variables(pid, self._proc), TAG)) for pid in procfs.pids(self._proc))
            self._listed_at = time.time()
            self._runs, self._listed = {pid: tag for pid, tag in tags if tag is not None}, now
        return self._runs

    def _open(self, pid: int) -> set[Inode]:
        return procfs.open_files(pid, self._proc)

    def _is_near(self, pid: int, path: str) -> bool:
        """Return whether a process works in this run's working folder, or in a folder that contains the file."""
        folder = procfs.working_dir(pid, self._proc)
        if folder is None:
            return False
        return folder == self._folder or os.path.realpath(path).startswith(folder.rstrip("/") + "/")
