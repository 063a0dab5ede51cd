"""Parts of runs on the hosts of the tests' ssh server: their folders and processes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.ssh_server import SshServer


def parts(server: SshServer) -> list[Path]:
    """Return the run directories on the host `one`."""
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
