"""One search for the processes that hold the devices, with 500 more processes on the machine. Mark: under 50 ms.

    python -m benchmarks.bench_holders

The processes are real ones that sleep. None has a device open, so that all of their files are read. The plain
alternative is a loop over `/proc` that lists the files of each process and compares their names.
The second row is the search of the clean-up after a run: the processes with the run's tag.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.report import table, write_json
from core.devices.device import Device
from core.memory_watch.gpu_processes import scan
from core.system import processes, procfs

if TYPE_CHECKING:
    from collections.abc import Callable

SLEEPERS = 500
FILES = 20
"""Files that each process has open besides its first three: about as many as a desktop program."""
GPUS = 8
ROUNDS = 60
MARK_MS = 50.0
RUN_ID = "20010101-000000-nobody-0000"


def sleepers(count: int) -> int:
    """Fork a process that forks so many; returns the pid of the first, which leads the group of all."""
    reading, writing = os.pipe()
    first = os.fork()
    if first:
        os.close(writing)
        os.read(reading, 1)  # the end of the file: all have been forked, or one could not be
        os.close(reading)
        return first
    try:
        os.setpgid(0, 0)
        for _ in range(FILES):
            os.open(os.devnull, os.O_RDONLY)
        for _ in range(count - 1):
            if os.fork() == 0:
                os.close(writing)
                signal.pause()
        os.close(writing)
        signal.pause()
    finally:
        os._exit(1)


def plain() -> int:
    """Return how many processes have a file of the NVIDIA driver open."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (the fastest plain way)
        folder = f"/proc/{pid}/fd"
        try:
            files = [os.readlink(f"{folder}/{number}") for number in os.listdir(folder)]  # noqa: PTH115, PTH208
        except OSError:
            continue
        found += any(file.startswith("/dev/nvidia") for file in files)
    return found


def main() -> int:
    """Measure in turns, so that whatever else the machine does falls on all."""
    devices = [
        Device(id=f"GPU-{at}", kind="nvidia", label=f"GPU {at}", name="stand-in", memory_total_bytes=1, minor=at)
        for at in range(GPUS)
    ]
    listed: dict[str, tuple] = {device.id: () for device in devices}
    subjects: dict[str, Callable[[], object]] = {
        "scan": lambda: scan(devices, listed),
        "tagged": lambda: processes.tagged(RUN_ID),
        "plain": plain,
    }
    first = sleepers(SLEEPERS)
    try:
        there = len(procfs.pids())
        assert there > SLEEPERS, f"only {there} processes: the system did not let {SLEEPERS} be started"
        spent = _measure(subjects)
    finally:
        os.killpg(first, signal.SIGKILL)
        os.waitpid(first, 0)
    rows = {name: {"median_ms": statistics.median(each), "worst_ms": max(each)} for name, each in spent.items()}
    over = statistics.median(scanned / other for scanned, other in zip(spent["scan"], spent["plain"], strict=True))
    titles = {"scan": "processes on the devices", "tagged": "processes with a tag", "plain": "plain loop over /proc"}
    table(
        f"One look through {there} processes, median of {ROUNDS} (mark: under {MARK_MS:g} ms)",
        ("what", "median, ms", "worst, ms"),
        [(titles[name], f"{row['median_ms']:.1f}", f"{row['worst_ms']:.1f}") for name, row in rows.items()],
    )
    print(f"The scan takes {over:.2f} times the plain loop (median of the pairs).")
    write_json("holders", {"processes": there, "mark_ms": MARK_MS, "scan_over_plain": over, **rows})
    return 0


def _measure(subjects: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Milliseconds of each round, after one that warms up."""
    spent: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(ROUNDS + 1):
        for name, subject in subjects.items():
            began = time.perf_counter()
            subject()
            if turn:
                spent[name].append((time.perf_counter() - began) * 1e3)
    return spent


if __name__ == "__main__":
    raise SystemExit(main())
