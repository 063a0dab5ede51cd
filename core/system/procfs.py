"""Read processes from `/proc` (proc(5)). A process that is gone or not readable gives None or an empty result.

Also find the mounted file system of a path.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

STUCK = "D"
"""The state of a process that waits inside the kernel: not even SIGKILL ends it."""
ENDED = frozenset("ZXx")
"""The states of processes that have ended and were not reaped yet."""
STOPPED = frozenset("Tt")
"""The states of a process that is stopped by a signal, or by a debugger that traces it."""
KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's `include/linux/sched.h`: a process without files and command line."""


class Stat(NamedTuple):
    """Some fields of `/proc/PID/stat`."""

    name: str
    """At most 15 characters, cut by the kernel."""
    state: str
    parent: int
    terminal: int
    """0 for none."""
    flags: int
    ticks: int
    """Clock ticks from the machine's start to the process's: with the pid, this identifies a process."""
    cpu_ticks: int
    """Clock ticks for which its threads have run, also in the kernel."""

    @property
    def created(self) -> float:
        """Start time in seconds since the machine's start, which setting the clock does not change."""
        return self.ticks / TICKS_PER_S

    @property
    def age_s(self) -> float:
        """Seconds since its start."""
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - self.created)


class Memory(NamedTuple):
    """Some fields of `/proc/PID/statm`."""

    size_bytes: int
    """Size of its address space; 0 for kernel threads, and for a process that has released it while exiting."""
    resident_bytes: int


def pids(proc: Path = PROC) -> list[int]:
    """Return the ids of all visible processes; none without a `/proc`."""
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208 (names only, and many)
    except OSError:
        return []


def stat(pid: int, proc: Path = PROC) -> Stat | None:
    head, _, tail = _read(proc, pid, "stat").rpartition(b")")  # the name in parentheses may contain anything
    fields = tail.split()  # fields of proc(5) from the third, the state
    if len(fields) <= 19:
        return None
    return Stat(
        name=head.partition(b"(")[2].decode(errors="replace"), state=fields[0].decode(), parent=int(fields[1]),
        terminal=int(fields[4]), flags=int(fields[6]), ticks=int(fields[19]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
    )


def state(pid: int, proc: Path = PROC) -> str:
    """Return the state of a process, a letter; the empty string if it is gone."""
    return found.state if (found := stat(pid, proc)) is not None else ""


def children(pid: int, proc: Path = PROC) -> list[int]:
    folder, listed = proc / str(pid), list[int]()
    lists = list(folder.glob("task/*/children"))
    for each in lists:
        with contextlib.suppress(OSError):  # the thread has ended
            listed += map(int, each.read_text().split())
    if lists or not folder.exists():
        return listed
    # The kernel was built without these lists (CONFIG_PROC_CHILDREN).
    return [each for each in pids(proc) if (found := stat(each, proc)) is not None and found.parent == pid]


def memory(pid: int, proc: Path = PROC) -> Memory | None:
    pages = _read(proc, pid, "statm").split()
    return Memory(int(pages[0]) * PAGE_BYTES, int(pages[1]) * PAGE_BYTES) if len(pages) > 1 else None


def resident_bytes(pid: int, proc: Path = PROC) -> int | None:
    """Return the resident set of a process, shared pages included."""
    found = memory(pid, proc)
    return None if found is None else found.resident_bytes


def owner(pid: int, proc: Path = PROC) -> int | None:
    """Return the user id of a process. Its folder's owner would be root for a process that may not be dumped."""
    found = re.search(rb"^Uid:\s+(\d+)", _read(proc, pid, "status"), re.MULTILINE)
    return int(found[1]) if found else None


def awaits(pid: int, number: int, proc: Path = PROC) -> bool:
    """Return whether a signal of this number is pending for a process."""
    masks = re.findall(rb"^S(?:ig|hd)Pnd:\s*([0-9a-f]+)", _read(proc, pid, "status"), re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def catches(pid: int, number: int, proc: Path = PROC) -> bool:
    """Return whether a process has a handler of its own for a signal of this number."""
    found = re.search(rb"^SigCgt:\s*([0-9a-f]+)", _read(proc, pid, "status"), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def waits_in(pid: int, proc: Path = PROC) -> str:
    """Return the function of the kernel in which a process waits; the empty string where that is not told."""
    name = _read(proc, pid, "wchan").decode(errors="replace").strip()
    return "" if name == "0" else name


def words(pid: int, proc: Path = PROC) -> tuple[str, ...]:
    """Return the command line of a process."""
    line = _read(proc, pid, "cmdline")
    return tuple(os.fsdecode(word) for word in line.removesuffix(b"\0").split(b"\0")) if line else ()


def variables(pid: int, proc: Path = PROC) -> list[bytes]:
    """Return the environment with which a process was started, as `name=value` entries."""
    return _read(proc, pid, "environ").split(b"\0")


def variable(entries: list[bytes], name: str) -> str | None:
    """Return the value of a variable in the entries of `variables`."""
    start = f"{name}=".encode()
    return next((os.fsdecode(entry.removeprefix(start)) for entry in entries if entry.startswith(start)), None)


def working_dir(pid: int, proc: Path = PROC) -> str | None:
    try:
        return os.readlink(proc / str(pid) / "cwd")  # noqa: PTH115 (in another root it is no path here)
    except OSError:
        return None


def written_bytes(pid: int, proc: Path = PROC) -> float:
    """Return how many bytes a process and its ended children have written anywhere; infinity if it is not known."""
    found = re.search(rb"^wchar: (\d+)", _read(proc, pid, "io"), re.MULTILINE)
    return int(found[1]) if found else math.inf


def namespace(pid: int | str, proc: Path = PROC) -> str | None:
    """Return the pid namespace of a process, or of `"self"`."""
    try:
        return os.readlink(proc / str(pid) / "ns" / "pid")  # noqa: PTH115 (the target is no path)
    except OSError:
        return None


def control_groups(proc: Path = PROC) -> str:
    """Return the control groups of this process, a line each; the empty string where they cannot be read."""
    return _read(proc, "self", "cgroup").decode(errors="replace")


def _read(proc: Path, pid: int | str, name: str) -> bytes:
    try:
        with open(f"{proc}/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 (of hundreds of processes each time)
            return file.read()
    except OSError:
        return b""


MEMINFO = Path("/proc/meminfo")
VMSTAT = Path("/proc/vmstat")
CGROUPS = Path("/sys/fs/cgroup")
UNLIMITED_BYTES = 2**62


class MemoryGroup(NamedTuple):
    """A control group whose memory the kernel counts. Sources: its `cgroup-v2.rst` and `cgroup-v1/memory.rst`."""

    file: Path
    """The file with the limit."""
    limit_bytes: int
    hits: int
    """How often the limit left no memory."""
    kills: int
    """How many processes in it the kernel has ended for lack of memory, of the group or of the machine."""


def memory_groups(proc: Path = PROC, root: Path = CGROUPS) -> list[MemoryGroup]:
    """Return the control group of this process and those above it, the innermost first, as far as they can be read."""
    found = []
    for line in control_groups(proc).splitlines():
        _, kind, path = line.split(":", 2)  # the kind of version 2 is empty
        for folder in Path(f"{root}/{kind}{path}/own").parents if kind in {"", "memory"} else ():
            limit = folder / ("memory.limit_in_bytes" if kind else "memory.max")
            events = _numbers(folder / ("memory.oom_control" if kind else "memory.events"))
            hits = _numbers(folder / "memory.failcnt").get("") if kind else events.get("oom")
            if hits is not None and "oom_kill" in events:
                found.append(MemoryGroup(limit, _numbers(limit).get("", UNLIMITED_BYTES), hits, events["oom_kill"]))
    return found


def reached_limit(before: list[MemoryGroup], after: list[MemoryGroup]) -> MemoryGroup | None:
    """Return the group whose limit made the kernel end a process of this group in between; None for any other end."""
    if not before or not after or after[0].kills <= before[0].kills:
        return None
    both = zip(before, after, strict=False)
    return next((now for was, now in both if now.hits > was.hits and now.limit_bytes < UNLIMITED_BYTES), None)


def oom_kills() -> int | None:
    """Return how many processes the kernel has ended for lack of memory (oom_kill of proc(5)); None if unknown."""
    return _numbers(VMSTAT).get("oom_kill")


def available_bytes() -> int | None:
    """Return the memory available to programs (MemAvailable of proc(5)), or None if unknown."""
    found = _numbers(MEMINFO).get("MemAvailable:")
    return None if found is None else found * 1024


def _numbers(path: Path) -> dict[str, int]:
    """Return whole numbers by the word before them in their line, or by "" if there is none; none of a missing file."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    words = [["", *line.split()] if len(line.split()) == 1 else line.split() for line in lines]
    return {name: int(number) for name, number, *_ in filter(None, words) if number.isdecimal()}


class Mount(NamedTuple):
    point: str
    """The folder where it is mounted."""
    kind: str
    """Its type, such as `ext4` or `nfs4`."""


def mount_of(path: Path, proc: Path = PROC) -> Mount | None:
    """Return the file system of a path; None where that cannot be read (see proc(5), `/proc/PID/mountinfo`)."""
    try:
        lines = (proc / "self" / "mountinfo").read_text(errors="surrogateescape").splitlines()
        here = path.resolve()
    except OSError:
        return None
    found = [
        Mount(_plain(before.split()[4]), after.split()[0]) for before, _, after in (x.partition(" - ") for x in lines)
    ]
    above = [each for each in found if here.is_relative_to(each.point)]
    return max(reversed(above), key=lambda each: len(each.point), default=None)  # the last of several at one point


def _plain(field: str) -> str:
    """Return a field without the octal escapes of spaces and the like."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
