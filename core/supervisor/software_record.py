"""Record what a run is trained with, while its workers start: ask its Python, and Git about the workload's folder.

Both are asked in processes of low priority that nothing waits for. What has not answered in time is not recorded.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from core.schema.event_kinds import Record, Software, Source
from core.schema.spec import RunSpec
from core.system.helper_process import HelperProcess
from core.system.installation import version
from resources import ROOT

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
        self._asked: list[tuple[list[HelperProcess], Callable[..., Record | None]]] = []
        """Processes, and what makes an event of them once all have ended."""
        self._deadline = 0.0

    def start(self, spec: RunSpec) -> None:
        """Ask the Python of a run, and Git if its workload is in a repository."""
        self._deadline = time.monotonic() + TIMEOUT_S
        self._ask(_software, [spec.python, "-c", LIST_PACKAGES], folder=spec.working_dir)
        # For a module: the folder that it is started in.
        workload = Path((spec.script.path or spec.working_dir) if spec.script is not None else spec.own_recipe.path)
        git = shutil.which("git")
        folders = () if workload.is_relative_to(ROOT) else (workload, *workload.parents)
        repository = next((str(folder) for folder in folders if (folder / ".git").exists()), None)
        if git is None or repository is None:
            return
        # The settings of the repository must not make Git start a program, nor may Git write into the folder.
        command = [git, "--no-optional-locks", "-c", "core.fsmonitor=false"]
        self._ask(
            lambda status, tracked: _source(status, tracked, repository),
            [*command, "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            [*command, "ls-files", "--error-unmatch", "--", str(workload)], folder=repository,
        )

    def poll(self) -> None:
        """Record the answers that have come; end the processes that take too long."""
        for each in list(self._asked):
            processes, answer = each
            if all(map(_has_ended, processes)):
                if (found := answer(*processes)) is not None:
                    self._write(found)
                self._asked.remove(each)
                for process in processes:
                    process.close()
        if time.monotonic() > self._deadline:
            self.close()

    def close(self) -> None:
        """End what has not answered."""
        for processes, _ in self._asked:
            for process in processes:
                process.close()
        self._asked.clear()

    def _ask(self, answer: Callable[..., Record | None], *commands: Sequence[str], folder: str) -> None:
        """Start processes of low priority. One that cannot be started fails the run itself where it matters."""
        processes: list[HelperProcess] = []
        self._asked.append((processes, answer))
        try:
            for command in commands:
                processes.append(HelperProcess(command, cwd=folder))
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, processes[-1].pid, NICE)
        except OSError:
            self._asked.pop()
            for process in processes:
                process.close()


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
    )


def _source(status: HelperProcess, tracked: HelperProcess, folder: str) -> Source | None:
    if status.exit_code() != 0:
        return None
    return source_of(status.output.decode(errors="replace"), folder, is_tracked=tracked.exit_code() == 0)


def _software(python_process: HelperProcess) -> Software | None:
    """Return what a Python has said of itself; None if it printed something else."""
    try:
        python, packages = ast.literal_eval(python_process.output.decode().strip().rpartition("\n")[2])
        return Software(version=str(python), packages=dict(packages), trainyard=version())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _has_ended(process: HelperProcess) -> bool:
    """Read what a process has printed, and return whether it has ended."""
    ended = process.exit_code() is not None  # first, so that nothing of its output is missed
    with contextlib.suppress(ValueError):
        process.receive()
    return ended
