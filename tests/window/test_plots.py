"""What all plots do: they draw what the book says, once, and say so when there is nothing to draw."""

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


def test_at_first_all_plots_are_over_time(qtbot) -> None:
    made = [row.make(DARK) for row in PLOTS]
    for plot in made:
        qtbot.addWidget(plot)
    assert [plot.axis_name() for plot in made] == ["time", "time", "time"]


def test_every_plot_has_its_object_name(plots) -> None:
    assert list(plots) == ["lossPlot", "utilisationPlot", "memoryPlot"]
    assert all(plot.objectName() == name and plot.accessibleName() for name, plot in plots.items())


def test_nothing_is_drawn_twice(plots, book, monkeypatch) -> None:
    draw(book, *plots.values())
    for plot in plots.values():
        plot.redraw()
        monkeypatch.setattr(plot, "_draw", lambda *_: pytest.fail("drawn although nothing had changed"))
        plot.redraw()


def test_what_is_new_is_painted_once(plots, book, qtbot, monkeypatch) -> None:
    """Painting costs the most of all: the axes have to be in place before it, not because of it."""
    plot = plots["utilisationPlot"]
    draw(book, plot)
    painted = []
    paint = pg.GraphicsView.paintEvent
    monkeypatch.setattr(pg.GraphicsView, "paintEvent", lambda self, event: painted.append(self) or paint(self, event))
    qtbot.waitUntil(lambda: bool(painted))
    for second in range(60, 64):
        QApplication.processEvents()
        painted.clear()
        book.fold(
            {"t": START + second, "kind": "sample", "device": device, "utilisation_percent": 80.0 + second}
            for device in COLOURS
        )
        plot.redraw()
        qtbot.waitUntil(lambda: bool(painted))
        for _ in range(3):
            QApplication.processEvents()
        assert painted == [plot.canvas]


def test_the_newest_values_stand_beside_the_title(plots, book) -> None:
    draw(book, *plots.values())
    texts = {name: plot._values.text() for name, plot in plots.items()}
    assert f"{np.nanmean(losses()[-10:]):.4g}" in texts["lossPlot"]
    assert "4.6" in texts["lossPlot"]
    assert "CPU 0" in texts["utilisationPlot"]
    assert "80\u2009%" in texts["utilisationPlot"]
    assert "3.0 GB" in texts["memoryPlot"]


@pytest.mark.parametrize("nothing", [None, RunSeries()], ids=["no run", "an empty run"])
def test_a_plot_without_data_says_so(plots, book, nothing) -> None:
    draw(book, *plots.values())
    assert all(plot.canvas.isVisible() for plot in plots.values())
    draw(nothing, *plots.values())
    for plot in plots.values():
        assert plot.empty.isVisible()
        assert plot.empty.text()
        assert not plot.canvas.isVisible()
        assert plot.curves() == {}


def test_a_plot_stays_where_it_was_moved_until_it_is_told_to_follow(plots, book, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    whole = loss.canvas.x_range
    qtbot.keyClick(loss.canvas, Qt.Key.Key_Plus)
    loss.redraw()
    zoomed = loss.canvas.x_range
    assert not loss.follows
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    x, _ = loss.curves()["loss"]
    assert len(x) < STEPS
    book.fold([{"t": START + 99, "kind": "metrics", "first": STEPS + 1, "values": {"loss": [1.0]}}])
    loss.redraw()
    assert loss.canvas.x_range == zoomed
    qtbot.keyClick(loss.canvas, Qt.Key.Key_A)
    loss.redraw()
    assert loss.follows
    assert loss.canvas.x_range == (0, STEPS + 1)


def test_another_run_is_shown_whole(plots, book, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    qtbot.keyClick(loss.canvas, Qt.Key.Key_Right)
    other = RunSeries()
    other.fold(events())
    draw(other, loss)
    assert loss.follows


def test_plots_over_time_move_together_and_the_loss_only_if_it_is_one(plots, book, qtbot) -> None:
    loss, utilisation, memory = plots.values()
    link = TimeLink(list(plots.values()))
    draw(book, *plots.values())
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


def test_a_change_of_theme_is_worn(plots, book) -> None:
    draw(book, *plots.values())
    for plot in plots.values():
        plot.set_theme(LIGHT)
        plot.redraw()
        corner = plot.canvas.grab().toImage().pixelColor(2, 2)  # where no line of the grid can be
        assert corner.name() == LIGHT.panel


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on: nothing to count")
def test_drawing_keeps_count_of_its_references_to_none(plots, book, qapp, request) -> None:
    """PySide6 6.12.0 lost some at every refresh, until the interpreter fell over.

    The ranges stand still meanwhile: changing them gains references, harmlessly, which would hide a loss.
    """
    draw(book, *plots.values())
    for plot in plots.values():
        plot.set_follow(False)
    counts = []
    gc.collect()
    gc.disable()  # what it would take away meanwhile holds references too
    request.addfinalizer(gc.enable)
    for refresh in range(300):
        book.fold(
            [{"t": START + 100 + refresh, "kind": "metrics", "first": STEPS + 1 + refresh, "values": {"loss": [1.0]}}]
        )
        for plot in plots.values():
            plot.redraw()
            plot.canvas.viewport().repaint()
        plots["lossPlot"].hover.point(float(refresh))
        qapp.processEvents()
        counts.append(sys.getrefcount(None))
    assert abs(counts[-1] - counts[50]) < 200, counts[::50]  # it lost more than ten at every refresh
