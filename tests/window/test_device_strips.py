"""The strips of many devices or long runs: one row each, with its mean beside it."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
import pytest

from core.series.device_readings import Slowdown
from core.series.run_series import RunSeries
from gui.base.theme import DARK
from gui.plots.area import PlotArea
from gui.plots.devices import SlowdownTimes
from gui.plots.run_plot import Plot
from tests.window.plotted import START

pytestmark = pytest.mark.styled


def busy_run(devices: int, *, until: int = 100) -> RunSeries:
    """Return a run that trains from second 20 to 80 at 90 %, and is idle before and after; one reading a second."""
    found: list[dict] = [
        {"t": START + 20.5, "kind": "metrics", "since": START + 20, "first": 1, "values": {"loss": [1.0, 1.0]}},
        {"t": START + 80, "kind": "state", "state": "releasing"},
    ]
    for second in range(until):
        found += (
            {"t": START + second, "kind": "sample", "device": f"gpu-{number}",
             "utilisation_percent": None if 40 <= second < 50 else 90.0 if 20 <= second < 80 else 0.0}
            for number in range(devices)
        )
    series = RunSeries()
    series.fold(sorted(found, key=lambda event: event["t"]))
    return series


def show(plot: Plot, series: RunSeries, devices: int) -> None:
    ids = [f"gpu-{number}" for number in range(devices)]
    plot.show_series(series, dict(zip(ids, DARK.devices, strict=False)), {each: each.upper() for each in ids})
    plot.redraw()


def test_more_than_four_devices_are_drawn_as_strips(plots) -> None:
    plot = plots["utilisationPlot"]
    show(plot, busy_run(4), 4)
    assert plot.form == "lines"
    show(plot, busy_run(5), 5)
    assert plot.form == "strips"
    assert plot.curves() == {}
    assert [label.text for label in plot.margin.left] == [f"GPU-{number}" for number in range(5)]
    show(plot, busy_run(2), 2)
    assert plot.form == "lines"
    assert set(plot.curves()) == {"gpu-0", "gpu-1"}
    assert plot.strips.rows == []


def test_hours_are_drawn_as_strips(plots) -> None:
    series = RunSeries()
    for at in (0.0, 10.0, 3700.0):
        series.add_reading("gpu-0", START + at, 50.0, None)
    show(plots["utilisationPlot"], series, 1)
    assert plots["utilisationPlot"].form == "strips"
    plots["utilisationPlot"].emphasise([])
    plots["utilisationPlot"].redraw()
    assert plots["utilisationPlot"].form == "lines", "the present does not change its form after an hour"


def test_mean_beside_a_strip_counts_the_training_only(plots) -> None:
    plot = plots["utilisationPlot"]
    show(plot, busy_run(5), 5)
    assert [label.text for label in plot.margin.right] == ["90\u2009%"] * 5
    assert "mean while training" in plot._values.text()
    assert plot.canvas.accessibleDescription().startswith("GPU-0 90\u2009%, GPU-1 90\u2009%")
    untrained = RunSeries()
    for number in range(5):
        untrained.add_reading(f"gpu-{number}", START, 3.0, None)
    show(plot, untrained, 5)
    assert [label.text for label in plot.margin.right] == ["\u2013"] * 5, "it has not trained yet"


def test_head_tells_the_mean_of_the_training_once_the_devices_are_idle(plots) -> None:
    plot = plots["utilisationPlot"]
    series = busy_run(2)
    show(plot, series, 2)
    assert (plot.form, series.utilisation["gpu-0"].last) == ("lines", 0.0)
    assert "mean while training" in plot._values.text()
    assert "90\u2009%" in plot._values.text()
    series.fold([{"t": START + 101, "kind": "state", "state": "starting"}])
    plot.redraw()
    assert "0\u2009%" in plot._values.text(), "it was resumed: the newest readings"
    assert "mean" not in plot._values.text()


def test_missing_reading_is_a_gap_in_a_strip_and_zero_is_none(plots) -> None:
    plot = plots["utilisationPlot"]
    show(plot, busy_run(5), 5)
    image = plot.canvas.grab().toImage()
    view = plot.canvas.view
    row = 4.5

    def colour_at(second: float) -> str:
        point = plot.canvas.mapFromScene(view.mapViewToScene(pg.Point(second, row)))
        return image.pixelColor(point).name()

    assert colour_at(10) == DARK.idle
    assert colour_at(47) == DARK.panel, "there was no reading"
    assert colour_at(60) not in {DARK.idle, DARK.panel}


def test_new_reading_folds_only_the_last_columns(plots) -> None:
    plot = plots["utilisationPlot"]
    series = busy_run(5)
    show(plot, series, 5)
    columns = plot.folds["gpu-0"].folded
    assert columns > 100
    for second in range(100, 103):
        for number in range(5):
            series.add_reading(f"gpu-{number}", START + second, 0.0, None)
        plot.redraw()
        assert plot.folds["gpu-0"].folded <= columns // 10
    x = plot.strips.rows[0].percent
    plot.folds.clear()
    plot.invalidate()
    plot.redraw()
    np.testing.assert_array_equal(plot.strips.rows[0].percent, x, "as if all were folded at once")


def test_lines_are_one_click_away_and_remembered(qtbot) -> None:
    area = PlotArea()
    qtbot.addWidget(area)
    area.create_plots()
    plot = area.plots["utilisationPlot"]
    show(plot, busy_run(5), 5)
    plot.form_button.click()
    assert plot.form == "lines"
    assert set(plot.curves()) == {f"gpu-{number}" for number in range(5)}
    kept = area.remember()
    plot.form_button.click()
    assert plot.form == "strips"
    assert area.remember()["utilisation"] is None, "what suits the run is no choice"
    area.restore(kept)
    assert plot.form == "lines"
    area.restore({"utilisation": ["garbage"]})
    assert plot.form == "strips"


def test_slowdown_is_marked_on_its_strip(plots) -> None:
    plot = plots["utilisationPlot"]
    series = busy_run(5)
    hot = {"kind": "sample", "device": "gpu-3", "utilisation_percent": 90.0, "slowdowns": ["too hot"]}
    series.fold([{"t": START + 100, **hot}, {"t": START + 105, **hot}])
    show(plot, series, 5)
    assert [row.marked is None for row in plot.strips.rows] == [True, True, True, False, True]
    assert len(np.flatnonzero(plot.strips.rows[3].marked)) == pytest.approx(6 * plot.canvas.pixels / 106, rel=0.6)
    place = plot.canvas.view.mapViewToScene(pg.Point(102, 1.5))
    image = plot.canvas.grab().toImage()
    below = [image.pixelColor(round(place.x()), round(place.y()) + down).name() for down in range(20)]
    assert DARK.bad in below


def test_slowdowns_in_columns_and_at_times() -> None:
    slowed = SlowdownTimes()
    spans = [Slowdown(since=2, until=3.5, words=("too hot",)), Slowdown(since=8, until=8, words=("too hot",))]
    slowed.update(spans)
    np.testing.assert_array_equal(np.flatnonzero(slowed.columns(1.0, 0, 10)), [2, 3, 8])
    np.testing.assert_array_equal(np.flatnonzero(slowed.columns(2.0, 1, 4)), [0, 3])
    np.testing.assert_array_equal(np.flatnonzero(slowed.columns(1.0, 20, 4)), [], "all before what is shown")
    np.testing.assert_array_equal(np.flatnonzero(slowed.columns(1.0, -9, 4)), [], "all after it")
    np.testing.assert_array_equal(slowed.at(np.array([1.0, 2, 3.5, 4, 8, 9])), [False, True, True, False, True, False])
    spans[-1].until = 9
    slowed.update(spans)
    assert slowed.at(np.array([9.0])).all()
