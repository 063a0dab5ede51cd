"""A run over this machine and a host of the ssh server for tests: its devices, its part there, and their processes."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from core.schema.event_log import Log
from core.system.own_processes import SUPERVISOR

if TYPE_CHECKING:
    from pathlib import Path

    from core.schema.spec import RunSpec
    from tests.support.running import Followed
    from tests.support.ssh_server import SshServer

AWAY = "one/cpu:1"


def over_hosts(spec: RunSpec) -> RunSpec:
    """Return the spec on a device here and one of the host."""
    return replace(spec, devices=("cpu:0", AWAY), strategy="ddp")


def parts(server: SshServer) -> list[Path]:
    """Return the run directories on the host."""
    return list(server.folder.glob("one/.local/share/trainyard/runs/2*"))


def processes_there(server: SshServer) -> list[psutil.Process]:
    """Return the processes of parts on the host."""
    names = {part.name for part in parts(server)}
    every = [psutil.Process(pid) for pid in psutil.pids() if psutil.pid_exists(pid)]
    return [each for each in every if any(name in word for word in _words(each) for name in names)]


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):  # it has ended
        return process.cmdline()
    return []


def worker_there(server: SshServer) -> psutil.Process:
    return next(each for each in processes_there(server) if "boot.py" in " ".join(each.cmdline()))


def cuts(run: Followed) -> int:
    """Return how many cuts of the connection the run has recorded."""
    return sum(event["kind"] == "notice" and "was cut for" in event["text"] for event in Log(run.run.dir).read())


def supervisors_there(server: SshServer) -> list[psutil.Process]:
    """Return the supervisor on the host: the child of its guard, which has the same command line."""
    with contextlib.suppress(psutil.Error):  # one has ended
        found = [each for each in processes_there(server) if SUPERVISOR in each.cmdline()]
        return [each for each in found if each.ppid() in {other.pid for other in found}]
    return []
