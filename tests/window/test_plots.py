"""All plots: draw new data once, link their time axes, and show a message when there is no data."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pyqtgraph as pg
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QPushButton

from core.series.run_series import RunSeries
from gui.base.theme import LIGHT
from gui.plots.registry import PLOTS, PlotLink
from tests.support.running import folded
from tests.window.driving import show_theme
from tests.window.plotted import COLOURS, START, STEPS, choose, draw, events

if TYPE_CHECKING:
    from gui.plots.run_plot import Plot


def test_every_plot_has_a_name_and_loss_starts_by_step_and_devices_over_time(qtbot, plots) -> None:
    assert list(plots) == ["lossPlot", "utilisationPlot", "memoryPlot"]
    all_plots = [row.make() for row in PLOTS]
    for row, plot in zip(PLOTS, all_plots, strict=True):
        qtbot.addWidget(plot)
        assert (plot.objectName(), bool(plot.accessibleName())) == (row.name, True)
    assert [plot.axis_name() for plot in all_plots] == ["step", *["time"] * 5]


def test_unchanged_plot_is_not_drawn_again(plots, run_series, monkeypatch) -> None:
    draw(run_series, *plots.values())
    for plot in plots.values():
        plot.redraw()
        monkeypatch.setattr(plot, "draw_lines", lambda *_: pytest.fail("drawn although nothing had changed"))
        plot.redraw()


def test_new_data_is_painted_once(plots, run_series, qtbot, monkeypatch) -> None:
    """Painting is the most expensive part, so the axes must be set before it; otherwise it happens twice."""
    plot = plots["utilisationPlot"]
    draw(run_series, plot)
    painted = []
    paint = pg.GraphicsView.paintEvent
    monkeypatch.setattr(pg.GraphicsView, "paintEvent", lambda self, event: painted.append(self) or paint(self, event))
    qtbot.waitUntil(lambda: bool(painted))
    for second in range(60, 64):
        QApplication.processEvents()
        painted.clear()
        run_series.fold(
            {"t": START + second, "kind": "sample", "device": device, "utilisation_percent": 80.0 + second}
            for device in COLOURS
        )
        plot.redraw()
        qtbot.waitUntil(lambda: bool(painted))
        for _ in range(3):
            QApplication.processEvents()
        assert painted == [plot.canvas]


def test_newest_values_are_shown_beside_title(plots, run_series) -> None:
    draw(run_series, *plots.values())
    texts = {name: plot._values.text() for name, plot in plots.items()}
    assert "train mean" in texts["lossPlot"]
    assert "best validation" in texts["lossPlot"]
    assert ">0.23<" in texts["lossPlot"]
    assert "CPU 0" in texts["utilisationPlot"]
    assert "80\u2009%" in texts["utilisationPlot"]
    assert "3.0 GB" in texts["memoryPlot"]


@pytest.mark.parametrize("nothing", [None, RunSeries()], ids=["no run", "an empty run"])
def test_plot_without_data_shows_message(plots, run_series, nothing) -> None:
    draw(run_series, *plots.values())
    assert all(plot.canvas.isVisible() for plot in plots.values())
    for plot in plots.values():
        plot.show_empty_words("Nothing was measured.")
    draw(nothing, *plots.values())
    for plot in plots.values():
        assert plot.empty.isVisible()
        assert plot.empty.text() == "Nothing was measured."
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
    assert loss.canvas.x_range == pytest.approx((0, STEPS + 1), rel=0.02)
    qtbot.keyClick(loss.canvas, Qt.Key.Key_Right)
    assert not loss.follows
    draw(folded(*events()), loss)
    assert loss.follows, "another run is shown"


def shown(plot: Plot) -> object:
    return pytest.approx(plot.canvas.x_range, abs=0.5)


@pytest.mark.parametrize(
    ("axis", "range_", "seconds"), [("step", (100, 200), (12, 22)), ("training", (9.9, 19.9), (12, 22))]
)
def test_plots_move_together_through_the_times_of_the_steps(plots, run_series, qtbot, axis, range_, seconds) -> None:
    """Step 1 was measured 2.1 s after the start, and ten steps a second after it."""
    loss, utilisation, memory = plots.values()
    _link = PlotLink(list(plots.values()))
    choose(loss, "axis_box", axis)
    draw(run_series, *plots.values())
    whole = [plot.canvas.x_range for plot in plots.values()]

    loss.canvas.view.setXRange(*range_, padding=0)
    loss.canvas.moved_by_hand.emit()
    assert (shown(utilisation), shown(memory)) == (seconds, seconds)
    assert not any(plot.follows for plot in plots.values())
    loss.canvas.view.setXRange(range_[0], 999, padding=0)
    loss.canvas.moved_by_hand.emit()
    assert shown(memory) == (seconds[0], whole[2][1]), "beyond the last step: with the memory watch"
    qtbot.keyClick(memory.canvas, Qt.Key.Key_A)
    for plot in plots.values():
        plot.redraw()
    assert all(plot.follows for plot in plots.values())
    assert [plot.canvas.x_range for plot in plots.values()] == whole

    memory.canvas.view.setXRange(*seconds, padding=0)
    memory.canvas.moved_by_hand.emit()
    assert (shown(loss), shown(utilisation)) == (range_, seconds)
    memory.canvas.view.setXRange(50, 55, padding=0)
    memory.canvas.moved_by_hand.emit()
    assert shown(loss) == range_, "no step was measured then"


def test_position_of_the_mouse_is_marked_in_all_plots(plots, run_series) -> None:
    loss, utilisation, memory = plots.values()
    _link = PlotLink(list(plots.values()))
    draw(run_series, *plots.values())
    loss.canvas.pointed.emit(100.0)
    assert [plot.crosshair.isVisible() for plot in plots.values()] == [False, True, True]
    assert memory.crosshair.value() == pytest.approx(12, abs=0.05)
    memory.canvas.pointed.emit(22.0)
    assert [plot.crosshair.isVisible() for plot in plots.values()] == [True, True, False]
    assert loss.crosshair.value() == pytest.approx(200, abs=0.5)
    assert utilisation.crosshair.value() == 22
    memory.canvas.pointed.emit(55.0)
    assert not loss.crosshair.isVisible(), "no step was measured then"
    memory.canvas.pointed.emit(None)
    assert not any(plot.crosshair.isVisible() for plot in plots.values())


def test_plots_of_different_runs_do_not_move_each_other(plots, run_series) -> None:
    """The plots of the devices may show the present beside a run of yesterday."""
    loss, utilisation, memory = plots.values()
    _link = PlotLink(list(plots.values()))
    draw(folded(*({**event, "t": event["t"] - 86_400} for event in events())), loss)
    draw(run_series, utilisation, memory)
    before = memory.canvas.x_range
    loss.canvas.view.setXRange(100, 200, padding=0)
    loss.canvas.moved_by_hand.emit()
    loss.canvas.pointed.emit(150.0)
    assert (memory.canvas.x_range, memory.follows, memory.crosshair.isVisible()) == (before, True, False)


def drag(plot: Plot, first: QPoint, last: QPoint, keys: Qt.KeyboardModifier) -> None:
    """Drag with the left button from one point of the canvas to another."""
    area, button = plot.canvas.viewport(), Qt.MouseButton.LeftButton
    for kind, at in (
        (QEvent.Type.MouseButtonPress, first), (QEvent.Type.MouseMove, (first + last) / 2),
        (QEvent.Type.MouseMove, last), (QEvent.Type.MouseButtonRelease, last),
    ):
        held = Qt.MouseButton.NoButton if kind is QEvent.Type.MouseButtonRelease else button
        event = QMouseEvent(kind, at.toPointF(), area.mapToGlobal(at).toPointF(), button, held, keys)
        QApplication.sendEvent(area, event)
    plot.redraw()


def test_drag_selects_a_range_and_values_are_fitted_to_it(plots, run_series, monkeypatch) -> None:
    monkeypatch.setitem(pg.CONFIG_OPTIONS, "mouseRateLimit", 0)  # else moves that follow each other fast are dropped
    loss = plots["lossPlot"]
    draw(run_series, loss)
    view, whole = loss.canvas.view, loss.canvas.y_range
    first, last = (loss.canvas.mapFromScene(view.mapViewToScene(QPointF(x, 1.0))) for x in (300.0, 400.0))
    drag(loss, first, last, Qt.KeyboardModifier.NoModifier)
    assert loss.canvas.x_range == pytest.approx((300, 400), abs=1.5)
    assert loss.canvas.y_range[1] < whole[1]
    assert not loss.follows
    drag(loss, first, last, Qt.KeyboardModifier.ShiftModifier)
    lo, hi = loss.canvas.x_range
    assert hi - lo == pytest.approx(100, abs=1.5)
    assert lo < 290, "with Shift, a drag moves the range"


def test_values_moved_by_hand_stay_until_all_is_shown(plots, run_series, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    fitted = loss.canvas.y_range
    loss.canvas.view.setYRange(-5, 5, padding=0)
    loss.canvas.y_moved_by_hand.emit()
    qtbot.keyClick(loss.canvas, Qt.Key.Key_Plus)
    loss.redraw()
    assert loss.canvas.y_range == (-5, 5)
    button = loss.findChild(QPushButton, "showAllButton")
    assert button.isVisible()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    loss.redraw()
    assert loss.canvas.y_range == fitted
    assert not button.isVisible()


def test_theme_change_is_applied_to_plots(plots, run_series) -> None:
    draw(run_series, *plots.values())
    show_theme(LIGHT)
    for plot in plots.values():
        plot.redraw()
        corner = plot.canvas.grab().toImage().pixelColor(2, 2)  # no grid line crosses this pixel
        assert corner.name() == LIGHT.panel


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on: nothing to count")
def test_drawing_does_not_lose_references_to_none(plots, run_series, qapp) -> None:
    """PySide6 6.12.0 lost some at every refresh, until the interpreter crashed.

    The axis ranges stay fixed: changing them adds harmless references, which would hide a loss.
    """
    draw(run_series, *plots.values())
    for plot in plots.values():
        plot.set_follow(False)
    counts = []
    gc.collect()
    for refresh in range(120):
        run_series.fold(
            [{"t": START + 100 + refresh, "kind": "metrics", "first": STEPS + 1 + refresh, "values": {"loss": [1.0]}}]
        )
        for plot in plots.values():
            plot.redraw()
            plot.canvas.viewport().repaint()
        plots["lossPlot"].hover.point(float(refresh))
        qapp.processEvents()
        counts.append(sys.getrefcount(None))
    assert abs(counts[-1] - counts[40]) < 200, counts[::40]  # the bug lost more than ten at every refresh
