"""Time to reopen a run of a million steps: to read and fold its events, and to draw the first frame.

Against the plain alternative: reading the same million values from a CSV file with numpy. Mark: under 1 s.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import table, write_json
from core.runs.run import Run
from core.schema.event_kinds import DeviceReading, Plan, StateChange
from core.schema.events import Writer, metrics_line
from core.schema.paths import EVENTS
from core.schema.spec import write_spec
from core.series.run_series import RunSeries
from tests.support.running import make_spec

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

STEPS = 1_000_000
BATCH = 250  # a quarter of a second at a thousand steps a second
ROUNDS = 5


def write_run(folder: Path) -> Path:
    """A finished run of a million steps, with device samples, as the workers and the supervisor write it."""
    run_dir = folder / "20260101-000000-long-0000"
    for part in (EVENTS, "control", "checkpoints"):
        (run_dir / part).mkdir(parents=True)
    write_spec(run_dir, make_spec("digits_cnn", epochs=1000))
    began = 1_760_000_000.0
    loss = (2.3 * np.exp(-np.arange(STEPS) / 2e5) + 0.1 * np.random.default_rng(0).random(STEPS)).astype(np.float32)
    worker = Writer(run_dir / EVENTS / "worker-0.jsonl")
    worker.write(Plan(epochs=1000, steps_per_epoch=1000, samples_per_epoch=64_000))
    for first in range(0, STEPS, BATCH):
        values = {"loss": loss[first : first + BATCH].tolist()}
        since = began + first / 1000
        worker.write_json(metrics_line(since=since, until=since + BATCH / 1000, first_step=first + 1, values=values))
    worker.close()
    supervisor = Writer(run_dir / EVENTS / "supervisor.jsonl")
    for state in ("starting", "running", "releasing", "finished"):
        supervisor.write(StateChange(state=state))
    supervisor.close()
    devices = Writer(run_dir / EVENTS / "devices.jsonl")
    for _ in range(STEPS // 1000):
        devices.write(DeviceReading(device_id="cpu:0", utilisation_percent=97.3, memory_used_bytes=337_051_648))
    devices.close()
    np.savetxt(folder / "loss.csv", loss, fmt="%.9g")
    return run_dir


def reopen(run_dir: Path) -> float:
    """Seconds from the directory to complete columns."""
    began = time.perf_counter()
    run_series = RunSeries()
    run = Run.attach(run_dir)
    run_series.fold(run.catch_up())
    seconds = time.perf_counter() - began
    assert run_series.metrics["loss"].count == STEPS
    return seconds


def in_the_window(run_dir: Path) -> float:
    """Seconds from the directory to the drawn curve."""
    from PySide6.QtWidgets import QApplication

    from gui.plots.loss import LossPlot

    app = QApplication.instance() or QApplication([])
    plot = LossPlot(name="lossPlot", title="Loss")
    plot.resize(1200, 600)
    plot.show()
    app.processEvents()
    began = time.perf_counter()
    run_series = RunSeries()
    run_series.fold(Run.attach(run_dir).catch_up())
    plot.show_series(run_series, {}, {})
    plot.redraw()
    plot.grab()
    seconds = time.perf_counter() - began
    plot.close()
    return seconds


def plain(folder: Path) -> float:
    """Seconds for numpy to read the same values from text."""
    began = time.perf_counter()
    assert len(np.loadtxt(folder / "loss.csv")) == STEPS
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_dir = write_run(folder)
        rounds = [(reopen(run_dir), in_the_window(run_dir), plain(folder)) for _ in range(ROUNDS)]
    read, drawn, text = (statistics.median(column) for column in zip(*rounds, strict=True))
    table(
        "Reopening a run of 1,000,000 steps (mark: under 1 s)",
        ["what", "seconds (median)", "over numpy.loadtxt"],
        [
            ["read and folded", f"{read:.2f}", f"{read / text:.2f}"],
            ["read, folded and drawn", f"{drawn:.2f}", f"{drawn / text:.2f}"],
            ["numpy.loadtxt of the values alone", f"{text:.2f}", "1.00"],
        ],
    )
    write_json("reopen", {"read_s": read, "drawn_s": drawn, "loadtxt_s": text})


if __name__ == "__main__":
    main()
