"""What runs on a node: an actor of Ray, and the agent's parent, the keeper. Standard library only.

The driver sends the actor as a value, since nothing of ours is installed on the node. The actor has the agent as a
process, and passes on what the agent reads and writes.

The keeper outlives the actor, and removes our code when nothing uses it any more. It runs this file from our code in
memory, as `__main__.py` of the archive. It leaves the processes of the actor, which Ray terminates with it, before it
makes anything: the agent is to notice by the end of its input that the other side is gone. Parts of runs that the agent
has started go on from the same folder, until they are over.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from core.hosts.ray.reports import PEER

if TYPE_CHECKING:
    import io

CHUNK_BYTES = 1024 * 1024
WAIT_S = 5.0
"""Longest wait of one call for something that the agent writes."""
INPUT, OUTPUT = "input", "output"
"""The groups of calls that run side by side, each in the order of its calls."""
PREFIX = "trainyard-ray-"
"""How the names of the folders with our code begin."""
STALE_S = 60.0
"""Age from which a folder that no keeper has is one that was left, and not one that is just being made."""
PR_SET_CHILD_SUBREAPER = 36


class AgentActor:
    """Starts an agent when it is created, which ends at the end of its input, at the latest with this process."""

    def __init__(self, code: bytes, peer: str) -> None:
        """`code`: what `packed` of the driver has made. `peer`: the address of the machine with the driver.

        The code is in memory alone until the keeper, which outlives this process, makes the folder that it removes.
        """
        folder = os.path.join(tempfile.gettempdir(), f"{PREFIX}{secrets.token_hex(8)}")  # noqa: PTH118
        raylet = os.environ.get("RAY_RAYLET_PID", str(os.getppid()))
        pipe = subprocess.PIPE
        with os.fdopen(os.memfd_create("trainyard"), "wb") as archive:
            archive.write(code)
            archive.flush()
            number = archive.fileno()
            command = [sys.executable, "-I", "-S", f"/proc/self/fd/{number}", str(number), folder, raylet, peer]
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


# -- the keeper --------------------------------------------------------------------------------------


def main(code: str, folder: str, raylet: str, peer: str) -> None:
    """Unpack our code into a new folder, run the agent, and remove the folder after the end of all that it has started.

    `code`: the number of the descriptor with our code. `raylet`: the process id of the raylet. `peer`: the address of
    the other machine.
    """
    if os.fork():
        os._exit(0)  # the rest is no child of the actor
    os.setsid()
    os.chdir("/")
    os.mkdir(folder, 0o700)  # noqa: PTH102  # an error if another user has made it
    try:
        lock(folder)
        remove_stale(Path(folder).parent)
        with os.fdopen(int(code), "rb") as archive:
            zipfile.ZipFile(archive).extractall(folder)
        start_agent(agent_command(folder), {**environment(int(raylet)), PEER: peer}, int(raylet))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # the ends of the agent's pipes, which are left to the agent alone
            os.dup2(nothing, stream)
        with contextlib.suppress(ChildProcessError):  # no child is left: agent, supervisors of parts
            while True:
                os.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def agent_command(folder: str) -> list[str]:
    """Return the command line that starts the agent from the folder with our code."""
    return [sys.executable, "-P", f"{folder}/core/system/own_start.py", "-m", "core.cli", "agent", "--stdio"]


def start_agent(command: list[str], variables: dict[str, str], raylet: int) -> None:
    """Start the agent as a child. Whatever it leaves behind becomes a child of this process, too."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.fork():
        return
    try:
        restore_settings(raylet)
        os.execve(command[0], command, variables)
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    os._exit(1)


def lock(folder: str) -> bool:
    """Lock a folder until the end of this process. Return False if another process has locked it."""
    handle = os.open(folder, os.O_RDONLY)  # closed when a child becomes another program
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return False
    return True


def remove_stale(parent: Path) -> None:
    """Remove the folders of keepers of this user that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            is_old = time.time() - found.st_mtime > STALE_S
            if is_old and found.st_uid == os.getuid() and not folder.is_symlink() and lock(str(folder)):
                shutil.rmtree(folder, ignore_errors=True)


def restore_settings(raylet: int) -> None:
    """Run like the raylet, as far as the system permits.

    Ray makes its workers the last to run and the first to be killed when memory is short.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, raylet))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(Path(f"/proc/{raylet}/oom_score_adj").read_text())


def environment(raylet: int) -> dict[str, str]:
    """Return the environment that the user has given to the node.

    Ray changes that of its workers: it sets OMP_NUM_THREADS, which would make training slow, and may hide all GPUs.
    """
    try:
        entries = Path(f"/proc/{raylet}/environ").read_bytes().split(b"\0")
        found = dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)
    except OSError:
        found = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return {name: value for name, value in found.items() if not name.startswith("RAY_")}


if __name__ == "__main__":
    main(*sys.argv[1:])
