"""What proc(5) tells of processes. All answers are empty, or None, for one that is gone or is not ours to read."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

STUCK = "D"
"""The state of a process that waits inside the kernel and cannot be ended, not even by SIGKILL."""
ENDED = frozenset("ZXx")
"""The states of processes that have ended: what is left of them is an entry in a table."""
KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's `include/linux/sched.h`: such a process has no files, and no command line."""


Inode = tuple[int, int]
"""A file, by device and number: whatever it is called."""


class Stat(NamedTuple):
    """Of `/proc/PID/stat`, what is asked for here."""

    name: str
    """As the kernel cuts it, at 15 letters."""
    state: str
    parent: int
    terminal: int
    """0 for none."""
    flags: int
    ticks: int
    """Between the machine's start and the process's: with the pid, this names one process for good."""

    @property
    def created(self) -> float:
        """Seconds since the machine's start: unlike unix time they stay the same when the clock is set."""
        return self.ticks / TICKS_PER_S

    @property
    def age_s(self) -> float:
        """Seconds since it was started."""
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - self.created)

    @property
    def is_kernel_thread(self) -> bool:
        return bool(self.flags & KERNEL_THREAD)


class Memory(NamedTuple):
    """Of `/proc/PID/statm`."""

    size_bytes: int
    """Of its address space; 0 for one that has given it up, the last thing that a process does; for kernel threads."""
    resident_bytes: int


def pids(proc: Path = PROC) -> list[int]:
    """The ids of all processes that can be seen; none without a `/proc`."""
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208 (names only, and many)
    except OSError:
        return []


def stat(pid: int, proc: Path = PROC) -> Stat | None:
    """What the kernel books on a process."""
    head, _, tail = _read(proc, pid, "stat").rpartition(b")")  # the name in parentheses may hold anything
    fields = tail.split()  # from the state, the third of proc(5), on
    if len(fields) <= 19:
        return None
    return Stat(
        name=head.partition(b"(")[2].decode(errors="replace"),
        state=fields[0].decode(),
        parent=int(fields[1]),
        terminal=int(fields[4]),
        flags=int(fields[6]),
        ticks=int(fields[19]),
    )


def memory(pid: int, proc: Path = PROC) -> Memory | None:
    """The memory of a process."""
    pages = _read(proc, pid, "statm").split()
    return Memory(int(pages[0]) * PAGE_BYTES, int(pages[1]) * PAGE_BYTES) if len(pages) > 1 else None


def resident_bytes(pid: int, proc: Path = PROC) -> int | None:
    """The resident set of a process; pages that it shares with others count."""
    found = memory(pid, proc)
    return None if found is None else found.resident_bytes


def owner(pid: int, proc: Path = PROC) -> int | None:
    """The user id of a process. Not that of its folder's owner: for a process that may not be dumped that is root."""
    found = re.search(rb"^Uid:\s+(\d+)", _read(proc, pid, "status"), re.MULTILINE)
    return int(found[1]) if found else None


def awaits(pid: int, number: int, proc: Path = PROC) -> bool:
    """Whether a signal of this number was sent to a process and has not reached it yet."""
    masks = re.findall(rb"^S(?:ig|hd)Pnd:\s*([0-9a-f]+)", _read(proc, pid, "status"), re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def words(pid: int, proc: Path = PROC) -> tuple[str, ...]:
    """The command line of a process."""
    line = _read(proc, pid, "cmdline")
    return tuple(os.fsdecode(word) for word in line.removesuffix(b"\0").split(b"\0")) if line else ()


def variables(pid: int, proc: Path = PROC) -> list[bytes]:
    """A process's environment as it was started with, `name=value` each."""
    return _read(proc, pid, "environ").split(b"\0")


def variable(entries: list[bytes], name: str) -> str | None:
    """The value of one of these `variables`."""
    start = f"{name}=".encode()
    return next((os.fsdecode(entry.removeprefix(start)) for entry in entries if entry.startswith(start)), None)


def working_dir(pid: int, proc: Path = PROC) -> str | None:
    """The folder in which a process works."""
    try:
        return os.readlink(proc / str(pid) / "cwd")  # noqa: PTH115 (of a process in another root it is no path here)
    except OSError:
        return None


def open_files(pid: int, proc: Path = PROC) -> set[Inode]:
    """The files that a process has open."""
    folder = proc / str(pid) / "fd"
    found = set()
    with contextlib.suppress(OSError):  # it has ended
        for name in os.listdir(folder):  # noqa: PTH208 (names are what is wanted)
            with contextlib.suppress(OSError):  # closed meanwhile
                state = os.stat(folder / name)  # noqa: PTH116
                found.add((state.st_dev, state.st_ino))
    return found


def namespace(pid: int | str, proc: Path = PROC) -> str | None:
    """The namespace in which a process, or `"self"`, has its pid."""
    try:
        return os.readlink(proc / str(pid) / "ns" / "pid")  # noqa: PTH115 (what it reads is no path)
    except OSError:
        return None


def _read(proc: Path, pid: int, name: str) -> bytes:
    try:
        return (proc / str(pid) / name).read_bytes()
    except OSError:
        return b""


MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """What programs could still be given, caches included (MemAvailable of proc(5)); None where it is not said."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
