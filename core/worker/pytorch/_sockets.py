"""Where data-loader workers have the sockets over which their tensors travel: in one folder, which is removed.

Each would make a folder of its own in the system's temporary one (`multiprocessing.util.get_temp_dir`), and a worker
that is ended by a signal, as those that persist are, leaves it there for ever. They inherit this process's instead:
it is removed when this process ends. If this process was killed, the run's guard removes it, or the supervisor that
resumes the run (`core.supervisor.claim`).
"""

from __future__ import annotations

import contextlib
import multiprocessing.util
import os
import socket
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_NAME = "pymp-xxxxxxxx/listener-xxxxxxxx"
"""At least as long as what `multiprocessing` puts below a folder."""


def share(run_dir: Path) -> None:
    """Make the folder, in the run's own where sockets can be there. Before the first data-loader worker is started."""
    before = tempfile.tempdir
    if _takes_sockets(run_dir):
        tempfile.tempdir = str(run_dir)
    try:
        multiprocessing.util.get_temp_dir()
    finally:
        tempfile.tempdir = before


def _takes_sockets(folder: Path) -> bool:
    """Whether it is on a file system that has sockets, and its path leaves room in the 108 bytes of their addresses."""
    own = f"probe-{os.getpid()}-"  # several ranks ask at once
    path = str(folder / (own + LONGEST_NAME.replace("/", "-")[len(own) :]))
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.bind(path)
        os.unlink(path)  # noqa: PTH108 (a text, as `bind` wants it)
        return True
    return False
