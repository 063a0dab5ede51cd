"""Start processes that go on: when this one ends, and, where that can be, after a log-out.

Where `KillUserProcesses` is set for a user, systemd-logind ends the processes of a session with it. A scope
of the user's own manager (user@UID.service) does not belong to a session: it lasts as long as that manager. The manager
ends some seconds after the last log-out, with everything below it, unless the user lingers (`loginctl enable-linger`).
Programs that are started from most desktops are below the manager already. Without `KillUserProcesses`, the processes
of a session stay where they are: moved below the manager, they could end earlier.

Nothing is asked, and nothing happens, on machines without systemd and outside of sessions, as in containers.
"""

from __future__ import annotations

import functools
import os
import pwd
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.language import tr
from core.system import processes, procfs
from core.system.processes import ProcessId
from core.system.procfs import PROC


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
