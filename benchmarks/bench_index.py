"""How long a window and a command take to list 10 000 runs, with and without their index, compared with 10 runs.

    python -m benchmarks.bench_index [--runs N] [--rounds N]

Opening is the time from the start of a process until the window lists its runs, and until all are known. A search is
the time of the window's thread until the list follows a text. Without an index, turns of the window's event loop are
measured while it reads the runs: how long a click would have to wait.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.report import table, write_json
from core.history.index import all_runs

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

MARK_OPEN_S, MARK_SEARCH_MS, MARK_TURN_MS = 0.1, 50, 100
SEARCHES = ("lr<1e-3", "state:finished framework:pytorch", "number-77", "tag:none lr>1", "sort:-loss")
PROBE = """
import json, os, sys, time
began = float(sys.argv[2])
from pathlib import Path
from PySide6.QtWidgets import QApplication, QLineEdit
app = QApplication([])
from gui.app import create_window
from gui.base.timers import GarbageCollector
window = create_window(Path(sys.argv[1]))
collector = GarbageCollector(app)
window.completed.connect(collector.start)  # as `gui.app.main` does
window.show()
service, rows, turns, last = window.services.run_list, window.panels.runs, [], time.perf_counter()
def turn():
    global last
    app.processEvents()
    now = time.perf_counter()
    turns.append(1000 * (now - last))
    last = now
while not rows.count():
    turn()
listed, listed_cpu = time.time() - began, time.process_time()
while not window.opened or time.time() - began < listed + 0.5:
    turn()
turns.clear()  # those of the opening, which are the same for ten runs
while service.left or not turns:
    turn()
known, reading = time.time() - began, sorted(turns)
settled = time.perf_counter() + 1.5
while time.perf_counter() < settled or service._index.busy or service._saving.busy:
    turn()
searches = []
for text in json.loads(sys.argv[3]):
    at = time.thread_time()  # another process may take the core meanwhile
    window.panels.run_filter.setText(text)
    window.panels.run_filter.returnPressed.emit()
    searches.append(1000 * (time.thread_time() - at))
print(json.dumps({"listed_s": listed, "listed_cpu_s": listed_cpu, "known_s": known,
                  "runs": len(service.summaries), "search_ms": max(searches),
                  "turn_p99_ms": reading[int(0.99 * (len(reading) - 1))], "turn_longest_ms": reading[-1]}))
window.close()
"""


def write_runs(root: Path, count: int) -> None:
    """Write finished runs of a recipe, each with a learning rate of its own."""
    from tests.support.written_runs import values, write_run

    model = write_run(root.parent / f"model-{count}", "run", [values(1, 1, 2, loss=[2.0, 1.0])])
    files = {path.name: path.read_bytes() for path in (model / "events").iterdir()}
    spec = json.loads((model / "spec.json").read_text())
    old = model.stat().st_mtime - 1000
    for number in range(count):
        run_dir = root / f"20260101-{number:06}-number-{number:05}"
        (run_dir / "events").mkdir(parents=True)
        for name, data in files.items():
            (run_dir / "events" / name).write_bytes(data)
        spec["training"]["learning_rate"] = 1e-4 * (1 + number % 100)
        (run_dir / "spec.json").write_text(json.dumps({**spec, "name": f"number-{number}"}))
        os.utime(run_dir / "spec.json", (old, old))


def opened(root: Path, cache: Path) -> dict[str, float]:
    """Open a window in a process of its own."""
    environment = {**os.environ, "TRAINYARD_CACHE_DIR": str(cache), "TRAINYARD_CONFIG_DIR": str(cache / "config")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(root), str(time.time()), json.dumps(SEARCHES)],
        env=environment, capture_output=True, text=True, check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def pair(few: Path, many: Path, cache: Path, *, swap: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Open a window on each folder, in an order that changes from pair to pair: the machine may become slower."""
    first, second = (many, few) if swap else (few, many)
    found = {root: opened(root, cache) for root in (first, second)}
    return found[few], found[many]


def main() -> int:
    """Measure; 1 if a mark was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-index-"))
    try:
        few, many = folder / "few", folder / "many"
        write_runs(few, 10)
        write_runs(many, options.runs)
        cold = opened(many, folder / "cold")
        os.environ["TRAINYARD_CACHE_DIR"] = str(folder / "warm")
        all_runs(many)
        began = time.perf_counter()
        assert len(all_runs(many)) == options.runs
        command_s = time.perf_counter() - began
        pairs = [pair(few, many, folder / "warm", swap=bool(at % 2)) for at in range(options.rounds)]
    finally:
        shutil.rmtree(folder)
    later = median(large["listed_s"] - small["listed_s"] for small, large in pairs)
    later_cpu = median(large["listed_cpu_s"] - small["listed_cpu_s"] for small, large in pairs)
    known = median(large["known_s"] - small["known_s"] for small, large in pairs)
    search = max(large["search_ms"] for _, large in pairs)
    turn = cold["turn_longest_ms"]
    table(
        f"{options.runs} runs, medians of {options.rounds} pairs with a folder of 10 runs",
        ("what", "measured", "mark"),
        [
            ("listed later than 10 runs, with the index", f"{later:.3f} s", f"{MARK_OPEN_S} s"),
            ("the same in processor time, all threads", f"{later_cpu:.3f} s", ""),
            ("all known later than 10 runs, with the index", f"{known:.3f} s", ""),
            ("all summaries for a command, with the index", f"{command_s:.3f} s", ""),
            ("slowest search", f"{search:.0f} ms", f"{MARK_SEARCH_MS} ms"),
            ("first look without an index", f"{cold['known_s']:.1f} s", ""),
            ("longest turn during the first look", f"{turn:.0f} ms", f"{MARK_TURN_MS} ms"),
            ("99th percentile of its turns", f"{cold['turn_p99_ms']:.0f} ms", ""),
        ],
    )
    marks = {"listed": later <= MARK_OPEN_S, "search": search <= MARK_SEARCH_MS, "turn": turn <= MARK_TURN_MS}
    write_json("index", {"pairs": pairs, "cold": cold, "command_s": command_s, "marks": marks})
    missed = [name for name, reached in marks.items() if not reached]
    if missed:
        print(f"Missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
