"""The actor on a node. It has the agent as a process, and passes on what that reads and writes. Standard library only.

The driver sends this class as a value, since nothing of ours is installed on the node.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from core.hosts.carriers.ray.keeper import PREFIX

if TYPE_CHECKING:
    import io

CHUNK_BYTES = 1024 * 1024
WAIT_S = 5.0
"""Longest wait of one call for something that the agent writes."""
INPUT, OUTPUT = "input", "output"
"""The groups of calls that run side by side, each in the order of its calls."""
KEEPER = (
    "import sys; sys.path.insert(0, '/proc/self/fd/' + sys.argv[1]); from core.hosts.carriers.ray.keeper import main; "
    "del sys.path[0]; main(*sys.argv[1:])"
)
"""The program that starts the keeper from our code in a descriptor. Its arguments are those of `keeper.main`."""


class AgentActor:
    """Starts an agent when it is created, which ends at the end of its input, at the latest with this process."""

    def __init__(self, code: bytes, peer: str) -> None:
        """`code`: what `archive.packed` has made. `peer`: the address of the machine with the driver.

        The code is in memory alone until the keeper, which outlives this process, makes the folder that it removes.
        """
        folder = os.path.join(tempfile.gettempdir(), f"{PREFIX}{secrets.token_hex(8)}")  # noqa: PTH118
        raylet = os.environ.get("RAY_RAYLET_PID", str(os.getppid()))
        pipe = subprocess.PIPE
        with os.fdopen(os.memfd_create("trainyard"), "wb") as archive:
            archive.write(code)
            archive.flush()
            number = archive.fileno()
            command = [sys.executable, "-I", "-S", "-c", KEEPER, str(number), folder, raylet, peer]
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, pass_fds=(number,))
            process.wait()  # the keeper is no child of this process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._requests: io.RawIOBase | None = process.stdin  # type: ignore[assignment]
        self._answers, self._errors = process.stdout.fileno(), process.stderr.fileno()
        self._pipes = process.stdout, process.stderr
        fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)
        self._open = {self._answers, self._errors}

    def write(self, data: bytes) -> bool:
        """Write to the agent's input. Waits while it does not read. Return False if it has ended."""
        assert self._requests is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._requests.write(rest) :]
        except BrokenPipeError:
            return False
        return True

    def end_input(self) -> None:
        """Close the agent's input, so that it ends."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def read(self) -> tuple[bytes, bytes, bool]:
        """Return what the agent has written to its output and its errors, and whether it has closed both."""
        found = {self._answers: b"", self._errors: b""}
        ready, _, _ = select.select([*self._open], [], [], WAIT_S)
        for descriptor in ready:
            found[descriptor] = os.read(descriptor, CHUNK_BYTES)
            if not found[descriptor]:
                self._open.discard(descriptor)
        return found[self._answers], found[self._errors], not self._open
