"""Make, start and recognise Trainyard's own processes. Trainings (workers and scripts) are not among them.

- main processes: the window, commands, supervisors with their guards, the queue, notifications
- processes that ask a driver: the helper that reads devices, and the check of what CUDA will see
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core.system import processes, procfs
from core.system.logout import outside_session
from core.system.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.system.processes import ProcessId

SUPERVISOR = "core.supervisor"
"""The module of supervisors. Their guards and their collectors of metrics have the same command line: the guard forks
the supervisor, and the supervisor forks the collector."""
NOTIFIER = "core.notifications"
"""The module of the process that sends a notification about a run."""
QUEUE = "core.queue"
"""The module of the processes before and after the wait of a queued run."""
MAIN_MODULES = frozenset({SUPERVISOR, NOTIFIER, QUEUE, "core.cli", "trainyard"})
MAIN_SCRIPTS = frozenset({"trainyard", "trainyard.py"})
HELPER = "core.devices.helper"
PREFLIGHT_SCRIPT = "ask_cuda.py"

START = Path(__file__).with_name("own_start.py")


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that starts a module of ours, with what it imports before the user's; see `own_start`."""
    return [sys.executable, "-P", str(START), "-m", module, *arguments]


def start_in_background(command: Sequence[str], output: int, *, survives_logout: bool = False) -> ProcessId | None:
    """Start a command that goes on when this process ends; return None if it has exited already.

    A shell starts it in the background and exits, so it is no child of this process: a window collects no zombies, and
    leaves none behind. `output`: a descriptor for what it prints. `survives_logout`: see `outside_session`, which may
    ask systemd-logind. Raises `OSError` or `CalledProcessError`.
    """
    if survives_logout:
        command = outside_session(command)
    shell = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, cwd="/",
        # What is started from within a training does not belong to that training.
        env={name: value for name, value in os.environ.items() if name not in {processes.TAG, processes.RUN_DIR}},
        start_new_session=True, check=True,
    )  # fmt: skip
    return processes.identify(int(shell.stdout))


def is_trainyard(words: Sequence[str]) -> bool:
    """Return whether a process with this command line belongs to Trainyard."""
    return is_main_process(words) or asks_drivers(words)


def is_main_process(words: Sequence[str]) -> bool:
    """Return whether this command line starts the window, a command, a supervisor, the queue, or a notification."""
    return bool(MAIN_MODULES & _modules(words)) or any(Path(word).name in MAIN_SCRIPTS for word in words[:2])


def asks_drivers(words: Sequence[str]) -> bool:
    """Return whether this starts a helper or a pre-flight check: they open device files without using memory."""
    return HELPER in _modules(words) or any(Path(word).name == PREFLIGHT_SCRIPT for word in words)


def supervised_runs(uid: int, proc: Path = PROC) -> set[str]:
    """Return the ids of a user's runs that have a supervisor or a guard, also in containers with other folders.

    A process of another user does not count: any user can start one with such a command line. Nor does one that is
    stopped, if the run's folder is here: a stopped guard terminates nothing, and the folder tells if the run lives.
    """
    lines = ((pid, procfs.words(pid, proc)) for pid in procfs.pids(proc))
    found = [(pid, words[words.index(SUPERVISOR) + 1]) for pid, words in lines if SUPERVISOR in words[:-1]]
    return {
        Path(run_dir).name
        for pid, run_dir in found
        if procfs.owner(pid, proc) == uid and not (_is_stopped(pid, proc) and Path(run_dir).is_dir())
    }


def supervises(pid: int, run_dir: Path, proc: Path = PROC) -> bool:
    """Return whether the command line of a process is that of the supervisor or the guard of this run."""
    words = procfs.words(pid, proc)
    try:
        return SUPERVISOR in words[:-1] and run_dir.samefile(words[words.index(SUPERVISOR) + 1])
    except (OSError, ValueError):  # one of the folders is not here
        return False


def is_agent(pid: int, proc: Path = PROC) -> bool:
    """Return whether the command line of a process of this user is that of an agent for another machine."""
    return {"agent", "--stdio"} <= set(procfs.words(pid, proc)) and procfs.owner(pid, proc) == os.getuid()


def _is_stopped(pid: int, proc: Path) -> bool:
    stat = procfs.stat(pid, proc)
    return stat is not None and stat.state in procfs.STOPPED


def _modules(words: Sequence[str]) -> set[str]:
    """Return the words after `-m`. Arguments of the program itself may be among them, which is harmless."""
    return {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-m"}
