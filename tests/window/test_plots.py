"""All plots: draw new data once, link their time axes, show a message when there is no data; the labels of axes."""

import gc
import sys
from itertools import pairwise

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QPushButton

from core.series.run_series import RunSeries
from gui.base import text_size
from gui.base.formatting import clock, number
from gui.base.theme import LIGHT
from gui.plots.items.canvas import Canvas, LeftAxis, log_positions, minor_log_positions, round_spacing, time_spacing
from gui.plots.registry import PLOTS, PlotLink
from gui.plots.run_plot import Plot
from tests.support.running import folded
from tests.window.driving import show_theme
from tests.window.plotted import COLOURS, START, STEPS, choose, draw, events


def test_every_plot_has_a_name_and_loss_starts_by_step_and_devices_over_time(hold, plots) -> None:
    assert list(plots) == ["lossPlot", "utilisationPlot", "memoryPlot"]
    all_plots = [hold(row.make()) for row in PLOTS]
    for row, plot in zip(PLOTS, all_plots, strict=True):
        assert (plot.objectName(), bool(plot.accessibleName())) == (row.name, True)
    assert [plot.axis_name() for plot in all_plots] == ["step", *["time"] * 5]


def test_new_data_is_painted_once(utilisation, run_series, qtbot, monkeypatch) -> None:
    """Painting is the most expensive part, so the axes must be set before it; otherwise it happens twice."""
    draw(run_series, utilisation)
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
        utilisation.redraw()
        qtbot.waitUntil(lambda: bool(painted))
        for _ in range(3):
            QApplication.processEvents()
        assert painted == [utilisation.canvas]


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


def test_moved_plot_stays_until_follow_is_switched_on(loss, run_series, qtbot) -> None:
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


def test_position_of_the_mouse_is_marked_in_all_plots_of_one_run(plots, run_series) -> None:
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


def test_values_moved_by_hand_stay_and_a_drag_selects_a_range_they_are_fitted_to(
    loss, run_series, qtbot, monkeypatch
) -> None:
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
    monkeypatch.setitem(pg.CONFIG_OPTIONS, "mouseRateLimit", 0)  # else moves that follow each other fast are dropped
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


def test_plots_have_newest_values_and_theme_and_are_not_drawn_unchanged(plots, run_series, monkeypatch) -> None:
    draw(run_series, *plots.values())
    show_theme(LIGHT)
    for plot in plots.values():
        plot.redraw()
        corner = plot.canvas.grab().toImage().pixelColor(2, 2)  # no grid line crosses this pixel
        assert corner.name() == LIGHT.panel
    texts = {name: plot._values.text() for name, plot in plots.items()}
    assert "train mean" in texts["lossPlot"]
    assert "best validation" in texts["lossPlot"]
    assert ">0.23<" in texts["lossPlot"]
    assert "CPU 0" in texts["utilisationPlot"]
    assert "80\u2009%" in texts["utilisationPlot"]
    assert "3.0 GB" in texts["memoryPlot"]
    for plot in plots.values():
        plot.redraw()
        monkeypatch.setattr(plot, "draw_lines", lambda *_: pytest.fail("drawn although nothing had changed"))
        plot.redraw()


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


# -- axes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "spacing", "text"),
    [
        (0, 1, "0:00"),
        (750, 30, "12:30"),
        (3723, 1, "1:02:03"),
        (59.99, 1, "1:00"),
        (3599.7, 1, "1:00:00"),
        (7.25, 0.25, "0:07.25"),
        (-5, 1, "-0:05"),
        (100_000, 60, "27:46:40"),
    ],
)
def test_times_are_formatted_like_a_clock(seconds: float, spacing: float, text: str) -> None:
    assert clock(seconds, spacing) == text


@pytest.mark.parametrize(
    ("value", "spacing", "text"),
    [(12_000, 500, "12\u2009000"), (0.25, 0.25, "0.25"), (2.5, 2.5, "2.5"), (-0.0, 0.1, "0.0"), (3e-6, 1e-6, "3e-06")],
)
def test_numbers_have_as_many_decimals_as_needed(value: float, spacing: float, text: str) -> None:
    assert number(value, spacing) == text


def test_ticks_and_lines_are_at_round_values_where_there_is_room(qapp) -> None:
    assert [round_spacing(least) for least in (0.03, 1, 1.1, 2.2, 30, 700)] == [0.05, 1, 2, 2.5, 50, 1000]
    assert [time_spacing(least) for least in (0.2, 3, 16, 700, 50_000, 100_000)] == [0.2, 5, 30, 900, 86_400, 172_800]
    np.testing.assert_allclose(log_positions(-1, 1, 20), np.log10([0.1, 0.2, 0.5, 1, 2, 5, 10]))
    np.testing.assert_allclose(log_positions(-3, 3, 4), [-3, -1, 1, 3])
    assert len(log_positions(0.31, 0.45, 10)) >= 2
    axis = LeftAxis()
    values = lambda height: axis.tickValues(-0.4, 19.8, height)[0][1]  # noqa: E731
    assert list(values(200)) == [0, 5, 10, 15]
    assert list(values(38)) == [0, 10]
    assert list(values(12)) == [0]
    axis.show_logarithmic(True)
    (_, ticks), (spacing, minor) = axis.tickValues(0, 2, 300)
    np.testing.assert_allclose(sorted([*ticks, *minor]), np.log10([*range(1, 10), *range(10, 101, 10)]), atol=1e-12)
    assert set(axis.tickStrings(minor, 1, spacing)) == {""}
    assert "10" in axis.tickStrings(ticks, 1, None)
    assert minor_log_positions(0, 20, 300, []) == [], "decades are too low"


@pytest.mark.parametrize("zoom", text_size.ZOOMS)
def test_labels_of_times_are_whole_at_every_size_of_text(qtbot, hold, zoom: float) -> None:
    text_size.set_zoom(zoom)
    try:
        canvas = hold(Canvas(y_by_hand=False))
        canvas.recolour()
        canvas.resize(800, 300)
        canvas.show()
        canvas.view.setXRange(0, 7200, padding=0)
        paper = QPixmap(800, 300)
        canvas.grab()  # the axis finds out how high it is, and has that height afterwards
        qtbot.waitUntil(lambda: len(labels_of(canvas, paper)) >= 2)
        labels = labels_of(canvas, paper)
    finally:
        text_size.set_zoom(1.0)
    assert labels[0][1] == "0:00"
    assert canvas.bottom.mapRectToScene(labels[0][0]).left() >= 0, "it is cut at the edge"
    assert all(one.right() < other.left() for (one, _), (other, _) in pairwise(labels)), "two overlap"


def labels_of(canvas: Canvas, paper: QPixmap) -> list[tuple[QRectF, str]]:
    """Return the labels of the x axis, with where they stand."""
    with QPainter(paper) as painter:
        *_, labels = canvas.bottom.generateDrawSpecs(painter)
    return [(place, text) for place, _, text in labels]
