"""The agent's parent on a node. It outlives the actor, and removes our code when nothing uses it any more.

The actor starts it from our code in memory. It leaves the processes of the actor, which Ray terminates with it, before
it makes anything: the agent is to notice by the end of its input that the other side is gone. Parts of runs that the
agent has started go on from the same folder, until they are over. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import time
import zipfile
from pathlib import Path

AGENT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from core.history.index import default_root; "
    "from core.config.abilities import PART_ABILITIES; "
    "from core.hosts.agent.server import serve; serve(default_root(), PART_ABILITIES, sys.argv[2])"
)
"""The program of the agent: its arguments are the folder with our code and the address of the other machine."""
AGENT_WORDS = ("agent", "--stdio")
"""The last words of its command line, by which `core.system.own_processes.is_agent` knows an agent."""
PREFIX = "trainyard-ray-"
"""How the names of the folders with our code begin."""
STALE_S = 60.0
"""Age from which a folder that no keeper has is one that was left, and not one that is just being made."""
PR_SET_CHILD_SUBREAPER = 36


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
        start_agent([sys.executable, "-c", AGENT, folder, peer, *AGENT_WORDS], int(raylet))
        leave_pipes()
        wait_for_all()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_agent(command: list[str], raylet: int) -> None:
    """Start the agent as a child. Whatever it leaves behind becomes a child of this process, too."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.fork():
        return
    try:
        restore_settings(raylet)
        os.execve(command[0], command, environment(raylet))
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    os._exit(1)


def leave_pipes() -> None:
    """Leave the ends of the agent's pipes to the agent alone."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def wait_for_all() -> None:
    """Wait until no child is left: the agent, and the supervisors of the parts that it has started."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


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
