"""How long the window stands still: turns of its event loop while it opens a long run and while it draws a live one.

    python -m benchmarks.bench_event_loop [--rounds N] [--seconds N]

A turn is the time between two runs of a timer of 1 ms, which is how long a click would have to wait. Beside it stands
the processor time of the window's thread in a turn, which other load changes less. The long run has
10^6 steps in 20 000 batches and 144 000 device readings in ten hours. It is opened for the first time (nothing is
cached), again in the same window, and in another window. The live run is written by a process, 20 batches a second;
then once more while another process writes up to 100 000 lines a second into the log that is shown.
A bare window with a plot that is redrawn ten times a second takes turns with ours: other load affects both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyqtgraph as pg
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from benchmarks.report import Stolen, table, write_json
from core.schema.paths import EVENTS, LOG_FILE, worker_events
from gui.app import create_window
from gui.base.timers import GarbageCollector
from gui.window.panels import LOG_TAB
from tests.support.long_run import write_long_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from gui.window.main_window import MainWindow

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

STEPS = 1_000_000
MARK_P99_MS, MARK_LONGEST_MS = 20, 50
SETTLE_S, PROBE_S = 2.0, 3.0
TIMEOUT_S = 60.0
LIVE = """
import os, sys, time
from pathlib import Path
from core.schema.event_kinds import DeviceReading, Plan, StateChange, SupervisorStart
from core.schema.events import Writer, metrics_line
worker, devices = Writer(Path(sys.argv[1]) / "worker-0.jsonl"), Writer(Path(sys.argv[1]) / "devices.jsonl")
supervisor = Writer(Path(sys.argv[1]) / "supervisor.jsonl")
supervisor.write(SupervisorStart(pid=os.getpid(), created=1.0, host="elsewhere", boot="0", pid_namespace="0"))
supervisor.write(StateChange(state="starting"))
supervisor.write(StateChange(state="running"))
worker.write(Plan(epochs=1000, steps_per_epoch=1000, samples_per_epoch=64_000))
step = 1
while True:
    began = time.time()
    time.sleep(0.05)
    losses = [2.0 / (1 + (step + each) / 5000) for each in range(50)]
    worker.write_json(metrics_line(since=began, until=time.time(), first_step=step, values={"loss": losses}))
    step += 50
    if step % 500 == 1:
        for each in range(8):
            busy = {"utilisation_percent": 80.0 + each, "memory_used_bytes": each << 30}
            devices.write(DeviceReading(device_id=f"gpu-{each}", **busy))
"""
FLOOD = """
import sys, time
written = 0
with open(sys.argv[1], "a") as log:
    while True:
        log.writelines(f"step {number} of the training, loss 0.123\\n" for number in range(written, written + 1000))
        log.flush()
        written += 1000
        time.sleep(0.01)
"""


class Turns:
    """The turns of the event loop, in milliseconds, during an action; `cpu_ms`: by processor time of this thread."""

    def __init__(self, app: QApplication) -> None:
        self._app = app
        self._timer = QTimer()
        self._timer.timeout.connect(self._tick)
        self._last = self._last_cpu = 0.0
        self.ms: list[float] = []
        self.cpu_ms: list[float] = []

    def during(self, action: Callable[[], object], done: Callable[[], bool], at_least_s: float = 0.0) -> float:
        """Do something from within the event loop, and return after how many seconds it was done."""
        self.ms.clear()
        self.cpu_ms.clear()
        finished: list[float] = []
        began = time.perf_counter()
        self._last, self._last_cpu = began, time.thread_time()
        self._timer.start(1)
        QTimer.singleShot(0, action)
        while time.perf_counter() - began < max(at_least_s, 0.0) or not finished:
            self._app.processEvents()
            if not finished and len(self.ms) > 2 and done():
                finished.append(time.perf_counter() - began)
            if time.perf_counter() - began > TIMEOUT_S:
                raise RuntimeError("This took more than a minute.")
            time.sleep(0.0002)
        self._timer.stop()
        return finished[0]

    def _tick(self) -> None:
        now, cpu = time.perf_counter(), time.thread_time()
        self.ms.append(1e3 * (now - self._last))
        self.cpu_ms.append(1e3 * (cpu - self._last_cpu))
        self._last, self._last_cpu = now, cpu

    @property
    def summary(self) -> dict[str, float]:
        found = np.array(self.ms)
        return {
            "p50_ms": float(np.median(found)), "p99_ms": float(np.percentile(found, 99)),
            "longest_ms": float(found.max()), "turns": len(found),
            "cpu_p99_ms": float(np.percentile(self.cpu_ms, 99)), "cpu_longest_ms": max(self.cpu_ms),
        }


def _whole(window: MainWindow, steps: int = STEPS) -> bool:
    """Whether the window shows all steps."""
    session = window.services.session
    series = session.run_series.metrics.get("loss") if session.run_series else None
    return series is not None and series.count >= steps and not getattr(session, "opening", None)


def _open_long(app: QApplication, root: Path, run_dir: Path) -> list[dict]:
    """Open the run for the first time, again, and in another window."""
    turns, found = Turns(app), []

    def opened(window: MainWindow, kind: str) -> None:
        cpu = time.process_time()
        seconds = turns.during(
            lambda: window.services.session.attach_to(run_dir), lambda: _whole(window), at_least_s=1.5
        )
        found.append({"kind": kind, "seconds": seconds, "cpu_s": time.process_time() - cpu, **turns.summary})

    first = _window(app, root)
    turns.during(lambda: None, lambda: True, at_least_s=PROBE_S)
    found.append({"kind": "no run", "seconds": 0.0, "cpu_s": 0.0, **turns.summary})
    opened(first, "long run, first time")
    first.services.session.leave(run_dir)
    turns.during(lambda: None, lambda: True, at_least_s=0.5)
    opened(first, "long run, second time")
    _close(first)
    second = _window(app, root)
    opened(second, "long run, in another window")
    _close(second)
    return found


def _draw_live(app: QApplication, root: Path, seconds: float, *, floods: bool = False) -> dict:
    """Follow a run that grows. `floods`: with a flood of lines in its log, which is shown."""
    live = write_long_run(root, steps=20_000, lines=400, rounds=2, name="20260102-000000-live-0000")
    for each in (live / EVENTS).iterdir():
        each.unlink()
    writers = [subprocess.Popen([sys.executable, "-c", LIVE, str(live / EVENTS)])]
    try:
        while not (live / EVENTS / worker_events(0)).exists():
            time.sleep(0.05)
        window = _window(app, root)
        if floods:
            window.panels.details.tabs.setCurrentIndex(LOG_TAB)
            writers.append(subprocess.Popen([sys.executable, "-c", FLOOD, str(live / LOG_FILE)]))
        turns = Turns(app)
        cpu = time.process_time()
        turns.during(lambda: window.services.session.attach_to(live), lambda: True, at_least_s=seconds)
        used = time.process_time() - cpu
        assert _whole(window, 1000)
        _close(window)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
        shutil.rmtree(live)
    kind = "live run whose log floods" if floods else "live run"
    return {"kind": kind, "seconds": seconds, "cpu_s": used, **turns.summary}


def _probe(app: QApplication, seconds: float) -> dict:
    """Turns of a bare window with a plot of a thousand points, redrawn ten times a second."""
    plot = pg.PlotWidget()
    plot.resize(1200, 600)
    plot.show()
    curve, values = plot.plot(), np.random.default_rng(0)
    timer = QTimer()
    timer.timeout.connect(lambda: curve.setData(values.random(1000)))
    timer.start(100)
    turns = Turns(app)
    turns.during(lambda: None, lambda: True, at_least_s=seconds)
    timer.stop()
    plot.close()
    plot.deleteLater()
    return {"kind": "probe", "seconds": seconds, "cpu_s": 0.0, **turns.summary}


def _window(app: QApplication, root: Path) -> MainWindow:
    window = create_window(root)
    window.show()
    settled = time.perf_counter() + SETTLE_S
    while time.perf_counter() < settled:
        app.processEvents()
        time.sleep(0.002)
    session = window.services.session
    if session.run is not None:
        session.leave(session.run.dir)
    GarbageCollector(window).start()  # as `gui.app.main` does
    return window


def _close(window: MainWindow) -> None:
    window.close()
    window.deleteLater()


def main() -> None:
    """Measure; print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the live run is followed")
    given = parser.parse_args()
    app = QApplication.instance() or QApplication([])
    stolen, rows = Stolen(), []
    for number in range(given.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.environ["TRAINYARD_CONFIG_DIR"] = str(folder / "config")
            os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
            root = folder / "runs"
            run_dir = write_long_run(root, steps=STEPS)
            found = [_probe(app, PROBE_S), *_open_long(app, root, run_dir), _probe(app, PROBE_S)]
            found += [_draw_live(app, root, given.seconds, floods=floods) for floods in (False, True)]
        rows += [{"round": number, **each} for each in found]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    names = ("p50_ms", "p99_ms", "longest_ms", "cpu_p99_ms", "cpu_longest_ms", "seconds", "cpu_s")
    longest = ("longest_ms", "cpu_longest_ms")
    summary = {
        kind: {name: float(np.median([row[name] for row in rows if row["kind"] == kind])) for name in names}
        | {name: max(row[name] for row in rows if row["kind"] == kind) for name in longest}
        for kind in kinds
    }
    table(
        f"Turns of the event loop, ms (marks: p99 {MARK_P99_MS}, longest {MARK_LONGEST_MS})",
        ("what", "median", "99th", "longest", "99th cpu", "longest cpu", "whole after s", "processor s"),
        [(kind, *(f"{summary[kind][name]:.2f}" for name in names)) for kind in kinds],
    )
    print(f"Stolen by the host: {stolen.share():.1%}. Load: {psutil.getloadavg()[0]:.1f}.")
    print("written:", write_json("event_loop", {"summary": summary, "rounds": rows}))


if __name__ == "__main__":
    main()
