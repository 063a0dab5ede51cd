"""Make the command lines of Trainyard's own processes, and recognise them. Trainings are not among them.

- main processes: the window, commands, supervisors with their guards, the queue, notifications
- processes that ask a driver: the helper that reads devices, and the checks of what CUDA and NVML say
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

SUPERVISOR = "core.supervisor"
"""The module of supervisors. Their guards and their collectors of metrics have the same command line: the guard forks
the supervisor, and the supervisor forks the collector."""
NOTIFIER = "core.notifications"
"""The module of the process that sends a notification about a run."""
QUEUE = "core.queue"
"""The module of the processes before and after the wait of a queued run."""
MAIN_MODULES = frozenset({SUPERVISOR, NOTIFIER, QUEUE, "core.cli", "trainyard"})
MAIN_SCRIPTS = frozenset({"trainyard", "trainyard.py"})
WAITER = "core/queue/waiter.py"
"""The end of the path of the script that waits for the devices of a queued run."""
HELPER = "core.devices.helper"
QUESTIONS = "core.check.questions"
KEEPER = "core.check.keeper"
"""The module of the process that ends the runs of a check."""
PREFLIGHT_SCRIPT = "ask_cuda.py"

START = Path(__file__).with_name("own_start.py")


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that starts a module of ours, with what it imports before the user's; see `own_start`."""
    return [sys.executable, "-P", str(START), "-m", module, *arguments]


def is_trainyard(words: Sequence[str]) -> bool:
    """Return whether a process with this command line belongs to Trainyard."""
    return is_main_process(words) or asks_drivers(words)


def is_main_process(words: Sequence[str]) -> bool:
    """Return whether this command line starts the window, a command, a supervisor, the queue, or a notification."""
    is_script = any(Path(word).name in MAIN_SCRIPTS for word in words[:2])
    return is_script or any(word.endswith(WAITER) for word in words[:4]) or bool(MAIN_MODULES & _modules(words))


def asks_drivers(words: Sequence[str]) -> bool:
    """Return whether this starts a process that asks a driver: it opens device files without using memory."""
    return bool({HELPER, QUESTIONS} & _modules(words)) or any(Path(word).name == PREFLIGHT_SCRIPT for word in words)


def _modules(words: Sequence[str]) -> set[str]:
    """Return the words after `-m`. Arguments of the program itself may be among them, which is harmless."""
    return {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-m"}
