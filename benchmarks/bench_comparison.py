"""How long the window takes to open a comparison of 100 runs of 10^6 steps, and to draw a frame of it at any zoom.

    python -m benchmarks.bench_comparison [--runs N] [--steps N]

The runs lie in the cache of long runs, as after an earlier look at them; a small comparison is opened before, so that
the modules are loaded. Opening lasts until all curves are drawn and their table is shown. A frame is what the window's
thread does from a new range until a plot is painted; the window draws its three plots in turns of its event loop. It is
measured in processor time, since another process may take the core meanwhile.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.report import table, write_json
from core.schema.paths import EVENTS, SPEC_FILE, SUPERVISOR_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gui.window.main_window import MainWindow

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

MARK_OPEN_S, MARK_FRAME_MS, MARK_TURN_MS = 2.0, 30.0, 50.0
ZOOMS = (1.0, 0.3, 0.03, 0.003, 0.0003, 0.00003)
"""Shares of the range that are shown."""
FRAMES = 12
READINGS, DEVICES, SECONDS = 18_000, 2, 36_000.0
BEGAN = 1_760_000_000.0
SIZE = (1480, 900)


def main() -> None:
    """Measure; print and write the results."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"], os.environ["XDG_CONFIG_HOME"] = f"{folder}/cache", f"{folder}/config"
        root = Path(folder) / "runs"
        began = time.perf_counter()
        write_cached_runs(root, options.runs, options.steps)
        print(f"wrote {options.runs} runs in {time.perf_counter() - began:.0f} s")
        found = _measure(root)
    rows = [
        (f"{zoom:g}", *(f"{each[zoom]['frame_ms']:.1f}" for each in (found["many"], found["two"])),
         f"{found['many'][zoom]['worst_ms']:.1f}", f"{found['many'][zoom]['all_ms']:.1f}")
        for zoom in ZOOMS
    ]
    table(
        f"A frame of a comparison, {options.steps:,} steps a run, ms of the window's thread, median of {FRAMES}",
        ("share of the range", f"{options.runs} runs", "2 runs", "worst", "all three plots"), rows,
    )
    print(f"Opened {options.runs} runs in {found['open_s']:.2f} s (mark {MARK_OPEN_S} s); of them the window's thread "
          f"worked {found['open_cpu_s']:.2f} s. Its longest turn was {found['longest_turn_ms']:.0f} ms, the longest "
          f"work in one {found['longest_work_ms']:.0f} ms (mark {MARK_TURN_MS:.0f} ms).")
    worst = max(each["frame_ms"] for each in found["many"].values())
    print(f"The slowest zoom takes {worst:.1f} ms a frame (mark {MARK_FRAME_MS} ms).")
    print("written:", write_json("comparison", found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1_000_000)
    return parser.parse_args()


def write_cached_runs(root: Path, runs: int, steps: int) -> None:
    """Write the folders of finished runs, and what was made of their events to the cache.

    Their events are short: a hundred runs of a million steps would be two gigabytes of text.
    """
    from core.runs.run import Run
    from core.series import long_runs
    from gui.runs.reading import take_in, unread
    from tests.support.long_run import write_long_run

    source = write_long_run(root, steps=2000, lines=20, devices=DEVICES, rounds=20, hours=SECONDS / 3600)
    padding = b"\n" * 600_000  # a run with few bytes of events is not looked for in the cache
    for number in range(runs):
        run_dir = root / f"20260102-{number:06}-long-{number:04}"
        shutil.copytree(source, run_dir)
        with (run_dir / EVENTS / SUPERVISOR_EVENTS).open("ab") as file:
            file.write(padding)
        run = Run.attach(run_dir)
        spec = replace(run.spec(), training=replace(run.spec().training, learning_rate=0.001 * (number // 2 + 1),
                                                    seed=number % 2))
        from core.schema.spec import write_spec

        write_spec(run_dir, spec)
        read = unread(run, spec)
        take_in(read, run.catch_up())
        _lengthen(read.run_series, steps, number)
        packed = long_runs.pack(run, read)
        assert packed is not None
        packed.write()
        assert (run_dir / SPEC_FILE).exists()
    shutil.rmtree(source)


def _lengthen(series: object, steps: int, number: int) -> None:
    """Replace the curves by long ones."""
    from core.series.device_readings import DeviceSeries
    from core.series.run_series import RunSeries
    from core.series.series import Series

    assert isinstance(series, RunSeries)
    noise = np.random.default_rng(number)
    loss, val = Series(), Series()
    at = np.arange(1.0, steps + 1)
    curve = 2 * np.exp(-at / (steps / 5)) + 0.01 * number + noise.normal(0, 0.05, steps)
    loss.append(at, BEGAN + SECONDS * at / steps, curve)
    every = max(steps // 1000, 1)
    val.append(at[::every], BEGAN + SECONDS * at[::every] / steps, curve[::every])
    series.metrics = {"loss": loss, "val_loss": val}
    times = BEGAN + SECONDS * np.arange(READINGS) / READINGS
    for device in list(series.utilisation):
        for kept, values in (
            (series.utilisation, 80 + noise.normal(0, 5, READINGS)), (series.memory, np.full(READINGS, 5e10 + number)),
        ):
            kept[device] = DeviceSeries()
            kept[device].append(np.arange(READINGS, dtype=np.float64), times, values)
    series.prepare()


def _measure(root: Path) -> dict[str, object]:
    from PySide6.QtWidgets import QApplication

    from gui.app import create_window
    from gui.base.theme import current_theme
    from gui.base.timers import GarbageCollector

    app = QApplication.instance() or QApplication([])
    GarbageCollector(app).start()  # as `gui.app.main` does
    window = create_window(root)
    window.resize(*SIZE)
    window.show()
    _until(app, lambda: window.panels.runs.count() > 0 and bool(window.panels.plots.plots)
           and not window.services.run_list.left, lambda: None)
    every = [str(each.dir) for each in window.services.run_list.found]
    _open(app, window, every[:2])
    window.controllers.comparison.close()
    reader = window.controllers.comparison.reader
    reader.colours = type(reader.colours)(len(current_theme().devices))
    opened = _open(app, window, every)
    many = _frames(app, window)
    window.controllers.comparison.close()
    _open(app, window, every[:2])
    two = _frames(app, window)
    window.close()
    return {**opened, "many": many, "two": two}


def _open(app: object, window: MainWindow, run_dirs: list[str]) -> dict[str, float]:
    """Open a comparison, and wait until all of it is drawn."""
    window.panels.runs.wanted = len(run_dirs) + 10
    window.controllers.run._show_list()
    window.panels.runs.tick(run_dirs)
    turns: list[tuple[float, float]] = []
    began, worked = time.perf_counter(), time.thread_time()
    window.panels.actions.do("compare", window.panels.runs.ticked)
    controller = window.controllers.comparison
    reader = controller.reader

    def is_open() -> bool:
        view, comparison = window.panels.comparison, reader.comparison
        if view is None or comparison is None or reader.waiting:
            return False
        runs = sum(len(row.runs) for row in comparison.rows)
        return runs == len(run_dirs) and len(view.card.table.rows) == len(comparison.rows) and bool(view.plot.drawn)

    last = began, worked

    def note() -> None:
        """Note how long the turn took, and how long this thread worked in it: another process may take the core."""
        nonlocal last
        now = time.perf_counter(), time.thread_time()
        turns.append((now[0] - last[0], now[1] - last[1]))
        last = now

    _until(app, is_open, note)
    return {
        "open_s": time.perf_counter() - began, "open_cpu_s": time.thread_time() - worked,
        "longest_turn_ms": 1e3 * max(turn for turn, _ in turns),
        "longest_work_ms": 1e3 * max(work for _, work in turns),
    }


def _frames(app: object, window: MainWindow) -> dict[float, dict[str, float]]:
    """Show ranges of the x axis, and measure how long drawing them takes."""
    view = window.panels.comparison
    assert view is not None
    window.controllers.comparison._timer.stop()
    view.plot.set_follow(False)
    _, end = view.plot.whole_span()
    found = {}
    for zoom in ZOOMS:
        spent = []
        for frame in range(FRAMES):
            begin, width = (1 - zoom) * end * frame / FRAMES, zoom * end * (1 - 1e-6 * frame)  # another one each time
            view.plot.canvas.view.setXRange(begin, begin + width, padding=0)
            app.processEvents()  # type: ignore[attr-defined]
            turns = []
            for plot in view.plots:
                at = time.thread_time()
                plot.redraw()
                app.processEvents()  # type: ignore[attr-defined]
                turns.append(1e3 * (time.thread_time() - at))
            spent.append(turns)
        found[zoom] = {
            "frame_ms": median(max(turns) for turns in spent), "worst_ms": max(max(turns) for turns in spent),
            "all_ms": median(sum(turns) for turns in spent),
        }
    window.controllers.comparison._timer.start()
    return found


def _until(app: object, condition: Callable[[], bool], each_turn: Callable[[], None]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        app.processEvents()  # type: ignore[attr-defined]
        each_turn()
        time.sleep(0.001)
        assert time.monotonic() < deadline, "the comparison did not open"


if __name__ == "__main__":
    main()
