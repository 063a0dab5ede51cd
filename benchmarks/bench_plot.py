"""What one frame of the live loss plot costs, however long the run, against pyqtgraph by itself.

    python -m benchmarks.bench_plot

Plots of 1200 x 600 pixels get the same points, and a few more before each frame. All kinds of plots and all lengths
of runs take turns in one process, so that other load on the machine affects all of them. A frame is: take in the new
points, prepare what is drawn, paint.

- ours: the window's loss plot, every step and its exponential mean, with follow mode, axes and read-out
- plain: one pyqtgraph curve given all points (up to 10^6 points: more would take too long)
- auto-peak: the same with pyqtgraph's own `setDownsampling(auto=True, method="peak")` and `setClipToView(True)`

The other two draw only the steps, without a mean. The additional work of ours counts as part of its time.

Then the loss beside six cards of other metrics with as many steps: the loss alone, and the cards when they are drawn,
which is once in `metric_cards.PAUSE_S`.

Then the utilisation of 8 devices over 10 hours, a reading every two seconds, as strips and as lines, in turns.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtWidgets import QApplication

from benchmarks.report import table, write_json
from core.series.run_series import RunSeries
from gui.base import theme as themes
from gui.base.theme import DARK
from gui.plots import metric_cards
from gui.plots.area import PlotArea
from gui.plots.registry import PLOTS

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

POINTS = (10_000, 100_000, 1_000_000, 10_000_000)
PLAIN_UP_TO = 1_000_000
FRAMES = 40
WARM_UP = 3
NEW_POINTS = 20
SIZE_PX = (1200, 600)
REOPENED_STEPS = CARD_STEPS = 1_000_000
DEVICES, DEVICE_READINGS, PERIOD_S = 8, 18_000, 2.0


def main() -> None:
    """Measure every length of run, and reopening a long one; print and write the results."""
    app = QApplication.instance() or QApplication([])
    themes.apply(app, DARK)
    spent = _measure(app)
    rows = [_row(points, spent) for points in POINTS]
    header = ("points", "ours, ms", "plain, ms", "auto-peak, ms", "ours: prepare, ms")
    table(f"A frame of the loss plot, {SIZE_PX[0]} x {SIZE_PX[1]}, median of {FRAMES}", header, _cells(rows))
    pairs = zip(spent[POINTS[3], "ours"], spent[POINTS[1], "ours"], strict=True)
    growth = median(long / short for long, short in pairs)
    print(f"10^7 points cost {growth:.2f} times a frame of 10^5 (median over the turns).")
    cards = _measure_cards(app)
    table(
        f"Six cards of {CARD_STEPS:,} steps beside the loss",
        ("part", "ms"),
        [(part, f"{median(times) * 1e3:.1f}") for part, times in cards.items()],
    )
    forms = _measure_forms(app)
    ratio = median(strips / lines for strips, lines in zip(forms["strips"], forms["lines"], strict=True))
    table(
        f"A frame of the utilisation, {DEVICES} devices with {DEVICE_READINGS:,} readings each",
        ("form", "ms"),
        [(form, f"{median(times) * 1e3:.1f}") for form, times in forms.items()],
    )
    print(f"Strips cost {ratio:.2f} times the lines (median over the turns).")
    reopened = _reopen()
    table(
        f"Reopening {REOPENED_STEPS:,} steps, JSON parsing apart",
        ("steps a batch", "fold, ms", "first view, ms"),
        [(row["batch"], f"{row['fold_ms']:.0f}", f"{row['view_ms']:.1f}") for row in reopened],
    )
    cards_ms = {part: median(times) * 1e3 for part, times in cards.items()}
    ratios = {"growth_1e7_over_1e5": growth, "strips_over_lines": ratio}
    found = {"frames": rows, "cards_ms": cards_ms, **ratios, "reopen": reopened}
    print("written:", write_json("plot", found))


def _measure(app: QApplication) -> dict[tuple[int, str], list[float]]:
    """The seconds of every frame, by number of points and kind of plot; `prepare` is a part of `ours`."""
    frames: dict[tuple[int, str], Callable[[int], None]] = {}
    spent: dict[tuple[int, str], list[float]] = {}
    for points in POINTS:
        values = _values(points + NEW_POINTS * (FRAMES + WARM_UP))
        ours = _Ours(values, points)
        spent[points, "prepare"] = ours.prepare
        frames[points, "ours"] = ours.frame
        if points <= PLAIN_UP_TO:
            frames[points, "plain"] = _Plain(values, points).frame
        frames[points, "auto_peak"] = _Plain(values, points, auto_peak=True).frame
    spent |= {key: [] for key in frames}
    for turn in range(FRAMES + WARM_UP):
        for key, frame in frames.items():
            began = time.perf_counter()
            frame(key[0] + NEW_POINTS * (turn + 1))
            spent[key].append(time.perf_counter() - began)
            app.processEvents()
    return {key: times[WARM_UP:] for key, times in spent.items()}


def _row(points: int, spent: dict[tuple[int, str], list[float]]) -> dict:
    times = {f"{name}_ms": median(each) * 1e3 for (length, name), each in spent.items() if length == points}
    return {"points": points, **times}


class _Ours:
    """The window's own loss plot, fed through a `RunSeries`."""

    def __init__(self, values: np.ndarray, points: int) -> None:
        self.values, self.shown = values, 0
        self.prepare: list[float] = []
        self.run_series = RunSeries()
        self._take_in(1)
        self.plot = PLOTS[0].make()
        self.plot.resize(SIZE_PX[0] + 24, SIZE_PX[1] + 40)  # the drawing area as large as the others'
        self.plot.show()
        self.plot.show_series(self.run_series, {}, {})
        loss = self.run_series.metrics["loss"]
        loss.append(np.arange(2.0, points + 1), np.linspace(1, 1000, points - 1), values[1:points])
        self.shown = points

    def frame(self, until: int) -> None:
        began = time.perf_counter()
        self._take_in(until)
        self.plot.redraw()
        self.prepare.append(time.perf_counter() - began)
        self.plot.canvas.viewport().repaint()

    def _take_in(self, until: int) -> None:
        batch = self.values[self.shown : until].tolist()
        now = 1000.0 + self.shown
        self.run_series.fold(
            [{"t": now, "kind": "metrics", "since": now, "first": self.shown + 1, "values": {"loss": batch}}]
        )
        self.shown = until


def _measure_cards(app: QApplication) -> dict[str, list[float]]:
    """The seconds of every frame of the loss, and of the cards beside it."""
    metric_cards.PAUSE_S = 0.0
    names = ["loss", *(f"metric_{number}" for number in range(5))]  # with the rate six cards
    values = _values(CARD_STEPS + NEW_POINTS * (FRAMES + WARM_UP))
    run_series, shown = RunSeries(), CARD_STEPS
    run_series.fold([{"t": 1.0, "kind": "metrics", "first": 1, "values": {name: [1.0] for name in names}}])
    for name in names:
        run_series.metrics[name].append(
            np.arange(2.0, shown + 1), np.linspace(1, 36_000, shown - 1), values[1:shown]
        )
    area = PlotArea()
    area.resize(1400, 900)
    area.show()
    area.create_plots()
    area.show_series(run_series, RunSeries(), {}, {}, live_devices=False)
    app.processEvents()
    spent: dict[str, list[float]] = {"loss": [], "cards, prepare": [], "cards, paint": []}
    loss = area.plots["lossPlot"]
    for _ in range(FRAMES + WARM_UP):
        batch, now = values[shown : shown + NEW_POINTS].tolist(), 35_000.0 + shown / 1e3
        event = {"t": now, "kind": "metrics", "since": now, "first": shown + 1}
        run_series.fold([{**event, "values": dict.fromkeys(names, batch)}])
        shown += NEW_POINTS
        began = time.perf_counter()
        loss.redraw()
        loss.canvas.viewport().repaint()
        drawn = time.perf_counter()
        area.cards.redraw()
        prepared = time.perf_counter()
        for card in area.cards.cards:
            card.repaint()
        ended = time.perf_counter()
        for part, seconds in zip(spent, (drawn - began, prepared - drawn, ended - prepared), strict=True):
            spent[part].append(seconds)
        app.processEvents()
    assert sum(card.isVisible() for card in area.cards.cards) == 6
    return {part: times[WARM_UP:] for part, times in spent.items()}


def _measure_forms(app: QApplication) -> dict[str, list[float]]:
    """The seconds of every frame of the utilisation plot, by what it draws."""
    plots = {form: _Devices(form) for form in ("strips", "lines")}
    spent: dict[str, list[float]] = {form: [] for form in plots}
    for _ in range(FRAMES + WARM_UP):
        for form, plot in plots.items():
            began = time.perf_counter()
            plot.frame()
            spent[form].append(time.perf_counter() - began)
            app.processEvents()
    return {form: times[WARM_UP:] for form, times in spent.items()}


class _Devices:
    """The window's own utilisation plot of a long run on several devices."""

    def __init__(self, form: str) -> None:
        self._noise = np.random.default_rng(0)
        self._ids = [f"gpu-{number}" for number in range(DEVICES)]
        self._readings = 0
        self._run_series = RunSeries()
        for _ in range(DEVICE_READINGS):
            self._read()
        first, last = PERIOD_S, PERIOD_S * DEVICE_READINGS
        metrics = {"t": last, "kind": "metrics", "since": first, "first": 1, "values": {"loss": [1.0, 1.0]}}
        self._run_series.fold([metrics])
        self._plot = next(row for row in PLOTS if row.name == "utilisationPlot").make()
        self._plot.resize(SIZE_PX[0] + 24, SIZE_PX[1] // 3)
        self._plot.show()
        self._plot.show_series(self._run_series, dict(zip(self._ids, DARK.devices, strict=False)), {})
        self._plot.choose(form)

    def frame(self) -> None:
        self._read()
        self._plot.redraw()
        self._plot.canvas.viewport().repaint()

    def _read(self) -> None:
        for device, percent in zip(self._ids, self._noise.uniform(40, 100, DEVICES).tolist(), strict=True):
            self._run_series.add_reading(device, PERIOD_S * self._readings, percent, None)
        self._readings += 1


class _Plain:
    """A pyqtgraph curve that is given everything at every frame."""

    def __init__(self, values: np.ndarray, points: int, *, auto_peak: bool = False) -> None:
        self.x, self.y = np.arange(1.0, len(values) + 1), values
        self.widget = pg.PlotWidget(background=DARK.panel)
        self.widget.resize(*SIZE_PX)
        self.widget.show()
        self.curve = self.widget.plot(pen=pg.mkPen(DARK.train, width=1))
        if auto_peak:
            self.curve.setDownsampling(auto=True, method="peak")
            self.curve.setClipToView(True)
        low, high = float(values.min()), float(values.max())
        self.widget.setYRange(low, high)
        self.widget.setXRange(0, points, padding=0)

    def frame(self, until: int) -> None:
        self.widget.setXRange(0, until, padding=0)
        self.curve.setData(self.x[:until], self.y[:until])
        self.widget.viewport().repaint()


def _values(count: int) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, 0.05, count)
    return 2 * np.exp(-3 * np.arange(count) / count) + 0.2 + noise


def _reopen() -> list[dict]:
    values = _values(REOPENED_STEPS).tolist()
    return [_reopened(values, batch) for batch in (25, 2500)]


def _reopened(values: list[float], batch: int) -> dict:
    events = [
        {
            "t": at + 1.0,
            "kind": "metrics",
            "since": float(at),
            "first": at + 1,
            "values": {"loss": values[at : at + batch]},
        }
        for at in range(0, len(values), batch)
    ]
    fold, view = [], []
    for _ in range(5):
        run_series = RunSeries()
        began = time.perf_counter()
        run_series.fold(events)
        folded = time.perf_counter()
        run_series.metrics["loss"].view(run_series.axes["step"], 0, len(values), SIZE_PX[0])
        view.append(time.perf_counter() - folded)
        fold.append(folded - began)
    return {"batch": batch, "fold_ms": median(fold) * 1e3, "view_ms": median(view) * 1e3}


def _cells(rows: list[dict]) -> list[tuple[str, ...]]:
    def ms(row: dict, name: str) -> str:
        return f"{row[name]:.1f}" if name in row else "-"

    names = ("ours_ms", "plain_ms", "auto_peak_ms", "prepare_ms")
    return [(f"{row['points']:,}", *(ms(row, name) for name in names)) for row in rows]


if __name__ == "__main__":
    main()
