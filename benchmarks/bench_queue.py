"""What runs cost that wait in the queue: memory and the share of a core of each of 200, and of a bare waiting Python.

    python -m benchmarks.bench_queue [WAITING]

All wait for one device that another process claims. Measured are the quiet time, in which each looks now and then
whether a process was killed, and the time in which a run joins and leaves the queue once a second. Beside them a Python
that imports nothing and sleeps. Marks: 12 MB of memory and 0.1 % of a core for each waiting run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.report import table, write_json
from core.queue import waiter
from core.queue.folder import VARIABLE, own_line

WAITING = 200
SETTLE_S = 15.0
MEASURED_S = 30.0
MARK_MB, MARK_PERCENT = 12.0, 0.1
FIELDS = {"state": "waiting", "name": "bench", "devices": ["cpu:0"], "labels": {"cpu:0": "CPU 0"}}
BARE = [sys.executable, "-I", "-S", "-c", "import time\nwhile True:\n    time.sleep(1)"]


def main() -> int:
    """Measure; print and write the results."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else WAITING
    with tempfile.TemporaryDirectory() as name:
        os.environ[VARIABLE] = name
        line = own_line().line
        claimed = line.put("running", {**FIELDS, "state": "holding"}), line.claim("cpu:0")
        assert None not in claimed
        bare = subprocess.Popen(BARE)
        started = time.monotonic()
        waiting = [_wait(Path(name), number) for number in range(count)]
        print(f"{count} are waiting after {time.monotonic() - started:.1f} s", flush=True)
        try:
            time.sleep(SETTLE_S)
            memory = [_memory_mb(each.pid) for each in waiting]
            shares = {"quiet": _share_percent(waiting, lambda: None)}
            shares["one a second"] = _share_percent(waiting, lambda: _change(line))
            beside = _memory_mb(bare.pid)
        finally:
            for each in (*waiting, bare):
                each.kill()
                each.wait()
    rows = [
        ("memory, MB", f"{max(own for own, _ in memory):.1f}", f"{beside[0]:.1f}", f"{MARK_MB:g}"),
        ("– its own part, MB", f"{max(part for _, part in memory):.1f}", f"{beside[1]:.1f}", ""),
        *((f"{name}, % of a core", f"{share:.3f}", "", f"{MARK_PERCENT:g}") for name, share in shares.items()),
    ]
    table(f"Each of {count} waiting runs", ("what", "waiting run", "bare Python", "mark"), rows)
    document = {"waiting": count, "memory_mb": max(memory), "bare_mb": beside, "shares_percent": shares}
    write_json("queue", document)
    return 0


def _wait(folder: Path, number: int) -> subprocess.Popen[bytes]:
    """Start what `core.queue.control.wait_in_line` becomes."""
    run_dir = folder / "runs" / f"run-{number}"
    (run_dir / "control").mkdir(parents=True)
    line = own_line().line
    request = {"priority": 0, "order": float(number), "held": False, "not_before": None, "after": ""}
    (run_dir / "queue.json").write_text(json.dumps(request))
    ticket = line.put(run_dir.name, {**FIELDS, "order": float(number)})
    state = {
        "line": [line.own, line.parent, line.prefix], "lock": [], "ticket": ticket,
        "ticket_fields": {**FIELDS, "order": float(number)}, "request": "queue.json",
        "events": "events", "lock_file": "lock", "stop": "control/stop", "retry_s": 15.0,
    }
    command = [sys.executable, "-I", "-S", waiter.__file__, str(run_dir), json.dumps(state)]
    process = subprocess.Popen(command, pass_fds=[ticket])
    os.close(ticket)
    return process


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory, and that without what is shared with others."""
    found = psutil.Process(pid).memory_full_info()
    return found.rss / 2**20, found.pss / 2**20


def _change(line) -> None:
    """Let a run join the queue, and leave it."""
    line.remove("other", line.put("other", FIELDS))


def _share_percent(waiting: list[subprocess.Popen[bytes]], every_second) -> float:
    """Of a core, by one of them on average."""
    before, began = _spent_s(waiting), time.monotonic()
    while time.monotonic() - began < MEASURED_S:
        every_second()
        time.sleep(1)
    return 100 * (_spent_s(waiting) - before) / (time.monotonic() - began) / len(waiting)


def _spent_s(waiting: list[subprocess.Popen[bytes]]) -> float:
    """Seconds of processor time, as exactly as the scheduler knows them."""
    return sum(int(Path(f"/proc/{each.pid}/schedstat").read_text().split()[0]) for each in waiting) / 1e9


if __name__ == "__main__":
    raise SystemExit(main())
