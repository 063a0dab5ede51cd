"""Serve the store at which a script's PyTorch ranks meet, on one address only.

    PYTHON torch_store.py DESCRIPTOR

Without it, rank 0 or torchrun serves the store, on all addresses of the machine and without a password. PyTorch has no
setting for the address, but takes over a listening socket. It is bound to the loopback address, or for ranks on several
machines to the address of the network that connects them.

The process runs under the script's own Python, so client and server are of one version. It loads PyTorch when the first
rank connects: a program that never does costs a small process and no PyTorch. This file is run by its path, under any
interpreter: standard library and Python 3.8 only.

The process does not carry the run's tag: the memory watch would terminate it as a process that outlived its worker. The
supervisor ends it with the run. Without a supervisor, it ends with the last rank.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import select
import socket
import subprocess
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False  # without importing `typing`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HOST = "127.0.0.1"
SINCE = (2, 8)
"""The first PyTorch whose store, as it is by default, listens on a socket that it is given.

https://github.com/pytorch/pytorch/pull/150215
"""
READY = b"ready\n"
MET = b"met\n"
READY_S = 10.0
"""Seconds to wait for an interpreter to start, and to find out which PyTorch it has."""
POLL_S = 0.5
"""Seconds between two checks whether a rank still runs, after the supervisor has died."""


class TorchStore:
    """Starts the serving process, and ends it."""

    def __init__(
        self, python: str, environment: Mapping[str, str], cwd: str, address: tuple[str, int] = (HOST, 0)
    ) -> None:
        """Start the process. `environment` and `cwd`: those with which a rank starts. Raises `OSError`.

        `address`: where the store listens; port 0 for any free one.
        """
        with socket.create_server(address, backlog=1024) as listener:
            self.port = str(listener.getsockname()[1])
            self._process = subprocess.Popen(
                [python, __file__, str(listener.fileno())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,  # the log is the script's
                env={**environment, "CUDA_VISIBLE_DEVICES": "", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, cwd=cwd,
                pass_fds=[listener.fileno()], start_new_session=True,
            )

    def is_ready(self) -> bool:
        """Return whether that Python has a PyTorch that can serve the store; wait for the answer if needed."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], READY_S)
        return bool(readable) and self._process.stdout.readline() == READY

    def add_rank(self, pid: int) -> None:
        """Name a process that needs the store, so that the store serves it even after the end of this process."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{pid}\n".encode())
            self._process.stdin.flush()

    def has_met(self) -> bool:
        """Return whether a rank has connected. Call it once."""
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        return MET in (self._process.stdout.read() or b"")

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, and ranks can no longer meet."""
        return self._process.poll() is not None

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


# -- the serving process -----------------------------------------------------------------------------


def main(descriptor: int) -> int:
    """Serve until stdin is closed and the processes named there have ended."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (no more modules than needed)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    if _version() < SINCE:
        return 0
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    watched, named, store = [0, descriptor], b"", None
    while 0 in watched or any(map(_runs, named.split())):
        readable, _, _ = select.select(watched, [], [], None if 0 in watched else POLL_S)
        if 0 in readable:
            read = os.read(0, 4096)
            named += read
            if not read:
                watched.remove(0)
        if descriptor in readable:
            watched.remove(descriptor)
            sys.stdout.buffer.write(MET)
            sys.stdout.flush()
            store = _serve(descriptor)
    del store
    return 0


def _version() -> tuple[int, ...]:
    """Return the version of PyTorch as far as two numbers, without importing it; () if there is none."""
    found = PathFinder.find_spec("torch")
    folders = (found and found.submodule_search_locations) or []
    for folder in folders:
        with contextlib.suppress(OSError), open(f"{folder}/version.py", encoding="utf-8") as file:  # noqa: PTH123 (quick)
            numbers = re.search(r"__version__ = ['\"](\d+)\.(\d+)", file.read())
            if numbers:
                return int(numbers[1]), int(numbers[2])
    return ()


def _serve(descriptor: int) -> Any:  # noqa: ANN401 (PyTorch's store)
    """Serve on a listening socket, to which the first rank has connected."""
    distributed = importlib.import_module("torch.distributed")
    with socket.socket(fileno=os.dup(descriptor)) as listener:
        host, port = listener.getsockname()[:2]
    return distributed.TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=descriptor)


def _runs(pid: bytes) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
