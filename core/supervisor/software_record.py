"""Record what a run is trained with, while its workers start: ask its Python, and Git about the workload's folder.

Both are asked in processes of low priority that nothing waits for. What has not answered in time is not recorded.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.schema.event_kinds import Software, Source
from core.system.helper_process import HelperProcess
from core.system.installation import version
from resources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.schema.event_kinds import Record
    from core.schema.spec import RunSpec

TIMEOUT_S = 20.0
"""Seconds until a process that has not answered is ended: `git status` may read a large folder from a slow disk."""
NICE = 19
LIST_PACKAGES = f"""\
import os, sys
found = {{}}
for folder in sys.path:
    try:
        names = sorted(os.listdir(folder)) if folder else []
    except OSError:
        continue
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            package, _, version = name.rpartition(".")[0].partition("-")
            if version and len(found) < {Software.limits.items}:
                found.setdefault(package, version.partition("-py")[0])
sys.stdout.write(ascii((sys.version.split()[0], found)))
"""
"""A program for the Python of the workers. It imports no package, and reads no file: the names of folders say it."""


class SoftwareRecord:
    """Start it when the workers have been started, `poll` it now and then, and `close` it at the end."""

    def __init__(self, write: Callable[[Record], None]) -> None:
        """Do nothing yet. `write`: writes an event."""
        self._write = write
        self._python: HelperProcess | None = None
        self._status: HelperProcess | None = None
        self._tracked: HelperProcess | None = None
        self._repository = Path()
        self._deadline = 0.0

    def start(self, spec: RunSpec) -> None:
        """Ask the Python of a run, and Git if its workload is in a repository."""
        self._deadline = time.monotonic() + TIMEOUT_S
        self._python = _ask([spec.python, "-c", LIST_PACKAGES], spec.working_dir)
        workload, git = _workload(spec), shutil.which("git")
        repository = None if workload.is_relative_to(ROOT) else _repository(workload)
        if git is None or repository is None:
            return
        self._repository = repository
        # The settings of the repository must not make Git start a program, nor may Git write into the folder.
        command = [git, "--no-optional-locks", "-c", "core.fsmonitor=false"]
        self._status = _ask([*command, "status", "--porcelain=v2", "--branch", "--untracked-files=no"], str(repository))
        self._tracked = _ask([*command, "ls-files", "--error-unmatch", "--", str(workload)], str(repository))

    def poll(self) -> None:
        """Record the answers that have come; end the processes that take too long."""
        if self._python is not None and _has_ended(self._python):
            if found := _software(bytes(self._python.output)):
                self._write(found)
            self._python.close()
            self._python = None
        if self._status is not None and self._tracked is not None and all(map(_has_ended, self._git)):
            if self._status.exit_code() == 0:
                is_tracked = self._tracked.exit_code() == 0
                status = self._status.output.decode(errors="replace")
                self._write(source_of(status, str(self._repository), is_tracked=is_tracked))
            self._close_git()
        if time.monotonic() > self._deadline:
            self.close()

    def close(self) -> None:
        """End what has not answered."""
        self._close_git()
        if self._python is not None:
            self._python.close()
            self._python = None

    @property
    def _git(self) -> list[HelperProcess]:
        return [each for each in (self._status, self._tracked) if each is not None]

    def _close_git(self) -> None:
        for process in self._git:
            process.close()
        self._status = self._tracked = None


def source_of(status: str, folder: str, *, is_tracked: bool) -> Source:
    """Return the state of a repository from what `git status --porcelain=v2 --branch` printed."""
    lines = status.splitlines()
    heads = {
        line.split()[1]: line.split()[2] for line in lines if line.startswith("# branch.") and len(line.split()) > 2
    }
    commit, branch = heads.get("branch.oid", ""), heads.get("branch.head", "")
    return Source(
        folder=folder, commit="" if commit == "(initial)" else commit, branch="" if branch == "(detached)" else branch,
        changed=not is_tracked or any(not line.startswith("#") for line in lines if line),
    )  # fmt: skip


def _software(output: bytes) -> Software | None:
    """Return what a Python has said of itself; None if it printed something else."""
    try:
        python, packages = ast.literal_eval(output.decode().strip().rpartition("\n")[2])
        return Software(version=str(python), packages=dict(packages), trainyard=version())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _workload(spec: RunSpec) -> Path:
    """Return the file or the folder that is trained; for a module, the folder that it is started in."""
    if spec.script is not None:
        return Path(spec.script.path or spec.working_dir)
    return Path(spec.own_recipe.path)


def _repository(workload: Path) -> Path | None:
    """Return the folder with `.git` that a path lies in; None if there is none."""
    return next((folder for folder in (workload, *workload.parents) if (folder / ".git").exists()), None)


def _ask(command: Sequence[str], folder: str) -> HelperProcess | None:
    """Start a process of low priority; None if it cannot be started, which fails the run itself where it matters."""
    try:
        process = HelperProcess(command, cwd=folder)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    return process


def _has_ended(process: HelperProcess) -> bool:
    """Read what a process has printed, and return whether it has ended."""
    ended = process.exit_code() is not None  # first, so that nothing of its output is missed
    with contextlib.suppress(ValueError):
        process.receive()
    return ended
