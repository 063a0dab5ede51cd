"""All plots: draw new data once, link their time axes, and show a message when there is no data."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from core.series.run_series import RunSeries
from gui.plots.plot_area import TimeLink
from gui.plots.registry import PLOTS
from gui.style.theme import DARK, LIGHT
from tests.window.plotted import COLOURS, START, STEPS, choose, draw, events, losses


def test_all_plots_start_with_time_axis(qtbot) -> None:
    all_plots = [row.make(DARK) for row in PLOTS]
    for plot in all_plots:
        qtbot.addWidget(plot)
    assert [plot.axis_name() for plot in all_plots] == ["time", "time", "time"]


def test_every_plot_has_object_name_and_accessible_name(plots) -> None:
    assert list(plots) == ["lossPlot", "utilisationPlot", "memoryPlot"]
    assert all(plot.objectName() == name and plot.accessibleName() for name, plot in plots.items())


def test_unchanged_plot_is_not_drawn_again(plots, run_series, monkeypatch) -> None:
    draw(run_series, *plots.values())
    for plot in plots.values():
        plot.redraw()
        monkeypatch.setattr(plot, "_draw", lambda *_: pytest.fail("drawn although nothing had changed"))
        plot.redraw()


def test_new_data_is_painted_once(plots, run_series, qtbot, monkeypatch) -> None:
    """Painting is the most expensive part, so the axes must be set before it; otherwise it happens twice."""
    plot = plots["utilisationPlot"]
    draw(run_series, plot)
    painted = []
    paint = pg.GraphicsView.paintEvent
    monkeypatch.setattr(pg.GraphicsView, "paintEvent", lambda self, event: painted.append(self) or paint(self, event))
    qtbot.waitUntil(lambda: bool(painted), timeout=20_000)
    for second in range(60, 64):
        QApplication.processEvents()
        painted.clear()
        run_series.fold(
            {"t": START + second, "kind": "sample", "device": device, "utilisation_percent": 80.0 + second}
            for device in COLOURS
        )
        plot.redraw()
        qtbot.waitUntil(lambda: bool(painted), timeout=20_000)
        for _ in range(3):
            QApplication.processEvents()
        assert painted == [plot.canvas]


def test_newest_values_are_shown_beside_title(plots, run_series) -> None:
    draw(run_series, *plots.values())
    texts = {name: plot._values.text() for name, plot in plots.items()}
    assert f"{np.nanmean(losses()[-10:]):.4g}" in texts["lossPlot"]
    assert "4.6" in texts["lossPlot"]
    assert "CPU 0" in texts["utilisationPlot"]
    assert "80\u2009%" in texts["utilisationPlot"]
    assert "3.0 GB" in texts["memoryPlot"]


@pytest.mark.parametrize("nothing", [None, RunSeries()], ids=["no run", "an empty run"])
def test_plot_without_data_shows_message(plots, run_series, nothing) -> None:
    draw(run_series, *plots.values())
    assert all(plot.canvas.isVisible() for plot in plots.values())
    draw(nothing, *plots.values())
    for plot in plots.values():
        assert plot.empty.isVisible()
        assert plot.empty.text()
        assert not plot.canvas.isVisible()
        assert plot.curves() == {}


def test_moved_plot_stays_until_follow_is_switched_on(plots, run_series, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    whole = loss.canvas.x_range
    qtbot.keyClick(loss.canvas, Qt.Key.Key_Plus)
    loss.redraw()
    zoomed = loss.canvas.x_range
    assert not loss.follows
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    x, _ = loss.curves()["loss"]
    assert len(x) < STEPS
    run_series.fold([{"t": START + 99, "kind": "metrics", "first": STEPS + 1, "values": {"loss": [1.0]}}])
    loss.redraw()
    assert loss.canvas.x_range == zoomed
    qtbot.keyClick(loss.canvas, Qt.Key.Key_A)
    loss.redraw()
    assert loss.follows
    assert loss.canvas.x_range == (0, STEPS + 1)


def test_showing_another_run_switches_follow_on(plots, run_series, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    qtbot.keyClick(loss.canvas, Qt.Key.Key_Right)
    other = RunSeries()
    other.fold(events())
    draw(other, loss)
    assert loss.follows


def test_time_plots_move_together_and_loss_joins_only_on_time_axis(plots, run_series, qtbot) -> None:
    loss, utilisation, memory = plots.values()
    link = TimeLink(list(plots.values()))
    draw(run_series, *plots.values())
    utilisation.canvas.moved_by_hand.emit()
    utilisation.canvas.view.setXRange(10, 20, padding=0)
    assert memory.canvas.x_range == pytest.approx((10, 20), abs=0.5)
    assert not memory.follows
    assert loss.follows
    assert loss.canvas.x_range == (0, STEPS)

    choose(loss, "axis_box", "time")
    for plot in plots.values():
        plot.redraw()
    assert all(plot.follows for plot in plots.values())
    loss.canvas.moved_by_hand.emit()
    loss.canvas.view.setXRange(5, 30, padding=0)
    for plot in (utilisation, memory):
        assert plot.canvas.x_range == pytest.approx((5, 30), abs=0.5)
        assert not plot.follows
    qtbot.keyClick(memory.canvas, Qt.Key.Key_A)
    assert all(plot.follows for plot in plots.values())

    choose(loss, "axis_box", "step")
    for plot in plots.values():
        plot.redraw()
    assert loss.canvas.x_range == (0, STEPS)
    assert memory.canvas.x_range == pytest.approx((0, 59), abs=0.5)
    assert link is not None


def test_theme_change_is_applied_to_plots(plots, run_series) -> None:
    draw(run_series, *plots.values())
    for plot in plots.values():
        plot.set_theme(LIGHT)
        plot.redraw()
        corner = plot.canvas.grab().toImage().pixelColor(2, 2)  # no grid line crosses this pixel
        assert corner.name() == LIGHT.panel


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on: nothing to count")
def test_drawing_does_not_lose_references_to_none(plots, run_series, qapp, request) -> None:
    """PySide6 6.12.0 lost some at every refresh, until the interpreter crashed.

    The axis ranges stay fixed: changing them adds harmless references, which would hide a loss.
    """
    draw(run_series, *plots.values())
    for plot in plots.values():
        plot.set_follow(False)
    counts = []
    gc.collect()
    gc.disable()  # collected objects would release references too
    request.addfinalizer(gc.enable)
    for refresh in range(300):
        run_series.fold(
            [{"t": START + 100 + refresh, "kind": "metrics", "first": STEPS + 1 + refresh, "values": {"loss": [1.0]}}]
        )
        for plot in plots.values():
            plot.redraw()
            plot.canvas.viewport().repaint()
        plots["lossPlot"].hover.point(float(refresh))
        qapp.processEvents()
        counts.append(sys.getrefcount(None))
    assert abs(counts[-1] - counts[50]) < 200, counts[::50]  # the bug lost more than ten at every refresh
