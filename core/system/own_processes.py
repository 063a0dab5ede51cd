"""Make, start and recognise Trainyard's own processes. Trainings (workers and scripts) are not among them.

- main processes: the window, commands, supervisors with their guards, the queue, notifications
- processes that ask a driver: the helper that reads devices, and the checks of what CUDA and NVML say

They outlive a log-out, if they are to. Where `KillUserProcesses` is set for a user, systemd-logind ends the processes
of a session with it. A scope of the user's own manager (user@UID.service) does not belong to a session: it lasts as
long as that manager. The manager ends some seconds after the last log-out, with everything below it, unless the user
lingers (`loginctl enable-linger`). Programs that are started from most desktops are below the manager already. Without
`KillUserProcesses`, the processes of a session stay where they are: moved below the manager, they could end earlier.

Nothing is asked, and nothing happens, on machines without systemd and outside of sessions, as in containers.
"""

from __future__ import annotations

import functools
import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.language import tr
from core.system import processes, procfs
from core.system.processes import ProcessId
from core.system.procfs import PROC

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
    )
    return processes.identify(int(shell.stdout))


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


PLACE = re.compile(r"/user-(\d+)\.slice/(?:(session-)[^/\n]+\.scope|user@\d+\.service)")
"""The path of a process in a session of a user, or below the manager of a user."""
LOGIND = "org.freedesktop.login1"
MANAGER = "/org/freedesktop/login1"
ASK_S = 1.0
"""Seconds for all questions to systemd-logind."""
TRY_S = 2.0
"""Seconds to start a scope."""
RUN = "systemd-run --user --scope --quiet --collect --no-ask-password --description=Trainyard"
SCOPE = (
    f"{RUN} --property=OOMPolicy=continue --expand-environment=no",
    f"{RUN} --property=OOMPolicy=continue",
    RUN,
)
"""Commands that start another in a scope: of systemd 254 and newer, of 253, and of older versions.

Without OOMPolicy, 253 and newer would end a whole run when the kernel ends one worker that needs too much memory.
"""
IN_SCOPE = f'timeout {TRY_S:g} $0 true </dev/null >/dev/null 2>&1 && exec $0 "$@"; exec "$@"'
"""A line of the shell: become a command in a scope; without one if none can be made now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOut:
    """What a log-out does to processes that this one starts."""

    ends_session: bool = False
    """Whether systemd ends the processes of this session with it."""
    ends_manager: bool = False
    """Whether it ends those below the user's manager after the last log-out."""
    scope: str = ""
    """The command that starts another in a scope of the user's manager; empty if that is not needed, or fails."""


@functools.cache
def at_logout() -> LogOut:
    """Return what a log-out does to processes that this one starts. It is asked once, and takes 3 seconds at most."""
    place = PLACE.search(procfs.control_groups(PROC))
    if place is None:
        return LogOut()
    kills, lingers = _ask(int(place[1]))
    in_session = place[2] is not None
    if in_session and not kills:
        return LogOut()
    return LogOut(ends_session=in_session, ends_manager=not lingers, scope=_scope() if in_session else "")


def outside_session(command: Sequence[str]) -> list[str]:
    """Return the command line that starts a command where the end of this session does not end it, if that can be.

    It becomes the command: process id, standard streams and inherited files stay as they are.
    """
    scope = at_logout().scope
    return ["/bin/sh", "-c", IN_SCOPE, scope, *command] if scope else list(command)


def logout_warning() -> str:
    """Return that a log-out may end runs, and what helps; the empty string if it does not."""
    found = at_logout()
    if found.ends_manager:
        return tr(
            "Logging out may end your runs, also queued ones, because systemd ends your processes then. To keep them "
            "running, enter once: loginctl enable-linger"
        )
    if found.ends_session and not found.scope:
        return tr(
            "Logging out ends your runs, also queued ones: systemd ends the processes of this session then, and "
            "`systemd-run --user --scope` cannot start them outside of it. Ask an administrator to name you under "
            "KillExcludeUsers in logind.conf."
        )
    return ""


def _ask(uid: int) -> tuple[bool, bool]:
    """Return whether a user's processes are ended with their session, and whether this user lingers.

    Where systemd-logind does not answer, nothing is known to be ended: False and True.
    """
    from jeepney import DBusAddress, DBusErrorResponse, Properties
    from jeepney.auth import AuthenticationError
    from jeepney.io.blocking import open_dbus_connection
    from jeepney.wrappers import unwrap_msg

    deadline = time.monotonic() + ASK_S
    try:
        with open_dbus_connection("SYSTEM", auth_timeout=ASK_S) as connection:

            def get(path: str, kind: str, name: str) -> Any:  # noqa: ANN401 (of the kind of the property)
                address = DBusAddress(path, bus_name=LOGIND, interface=f"{LOGIND}.{kind}")
                request = Properties(address).get(name)
                left_s = max(0.0, deadline - time.monotonic())
                return unwrap_msg(connection.send_and_get_reply(request, timeout=left_s))[0][1]

            kills = _kills(uid, lambda name: get(MANAGER, "Manager", name))
            try:
                return kills, bool(get(f"{MANAGER}/user/_{os.getuid()}", "User", "Linger"))
            except DBusErrorResponse:  # it knows no such user: one that neither is logged in nor lingers
                return kills, False
    except (OSError, RuntimeError, ValueError, KeyError, AuthenticationError, DBusErrorResponse):
        return False, True


def _kills(uid: int, get: Callable[[str], Any]) -> bool:
    """Return whether systemd-logind ends the processes of a user's session with it; see logind.conf(5)."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return False
    excluded, only = get("KillExcludeUsers"), get("KillOnlyUsers")
    if name in excluded or (name == "root" and not excluded):
        return False
    return name in only if only else bool(get("KillUserProcesses"))


def _scope() -> str:
    """Return the command that starts another in a scope of the user's manager; the empty string if none does."""
    until = time.monotonic() + TRY_S
    for command in SCOPE:
        try:
            tried = subprocess.run(
                [*command.split(), "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=max(0.0, until - time.monotonic()), check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        if tried.returncode == 0:
            return command
    return ""
