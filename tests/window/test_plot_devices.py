"""The device plots: utilisation and memory over time, gaps, and the end of training."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QImage, QTextDocument, QTextTable
from PySide6.QtWidgets import QWidget

from core.series.run_series import RunSeries
from gui.base.theme import DARK
from gui.plots.items.lines import drop_constant_points
from gui.plots.items.margin_labels import moved_apart, stand_for_others
from gui.plots.registry import PLOTS
from gui.plots.run_plot import Plot
from tests.support.colour_vision import contrast
from tests.support.running import folded
from tests.window.plotted import COLOURS, LABELS, START, draw, events, readings


def test_end_of_training_is_marked_on_memory_plot(plots, run_series, qtbot) -> None:
    memory = plots["memoryPlot"]
    draw(run_series, memory)
    assert memory.end.line.isVisible()
    assert memory.end.line.value() == 50
    assert memory.end.label.toPlainText() == "training ended"
    memory.show_training_end(paused=True, over=True)
    memory.redraw()
    assert memory.end.label.toPlainText() == "training paused"
    assert memory.end.label.isVisible()
    memory.setFixedHeight(90)

    def label_is_gone() -> None:
        memory.redraw()
        assert memory.end.line.isVisible()
        assert not memory.end.label.isVisible()

    qtbot.waitUntil(label_is_gone)
    run_series.fold([{"t": START + 75, "kind": "state", "state": "releasing"}])
    draw(run_series, memory)
    left, right = memory.canvas.x_range
    assert left == 0
    assert 75 < right < 80, "without later readings, with a margin after the mark"
    assert memory.end.line.value() == 75
    draw(RunSeries(), memory)
    draw(folded(*(event for event in events() if event.get("state") != "releasing")), memory)
    assert not memory.end.line.isVisible()


def test_note_replaces_newest_values_and_is_cut(plots, run_series) -> None:
    memory = plots["memoryPlot"]
    draw(run_series, memory)
    memory.set_note("released in 1.8 s", "good")
    assert memory._note.isVisible()
    assert not memory._values.isVisible()
    memory.set_note("")
    assert memory._values.isVisible()
    memory.set_note("held by others: GPU 0, GPU 1, GPU 2 and GPU 3 " * 10, "warn")
    blank = memory._note.grab().toImage()
    blank.fill(blank.pixelColor(0, 0))
    assert memory._note.grab().toImage() != blank
    assert memory._note.toolTip() == memory._note.text()


def test_hover_reads_every_device(plots, run_series) -> None:
    draw(run_series, *plots.values())
    utilisation = plots["utilisationPlot"].reading_at(25.1)
    memory = plots["memoryPlot"].reading_at(25.1)
    assert utilisation is not None
    assert utilisation.text.splitlines() == ["0:25", "CPU 0 80\u2009%", "CPU 1 \u2013"]
    assert memory is not None
    assert memory.text.splitlines() == ["0:25", "CPU 0 3.0 GB", "CPU 1 3.0 GB"]


def many_devices(count: int) -> tuple[RunSeries, list[str]]:
    """Return readings of so many devices, the last one first, and their ids in the order of the list."""
    ids = [f"gpu-{number}" for number in range(count)]
    return readings({device: [50.0] * 9 for device in reversed(ids)}), ids


def read_rows(text: str) -> list[list[str]]:
    """Return the rows of the table in a read-out, one text per cell."""
    document = QTextDocument()
    document.setHtml(text)
    (table,) = (frame for frame in document.rootFrame().childFrames() if isinstance(frame, QTextTable))
    cells = ((table.cellAt(row, column) for column in range(table.columns())) for row in range(table.rows()))
    return [[cell.firstCursorPosition().block().text().strip("\u25a0 ") for cell in row] for row in cells]


def test_hover_of_ten_devices_is_whole_and_in_the_order_of_the_list(qtbot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    plot = next(row for row in PLOTS if row.name == "utilisationPlot").make()
    plot.setParent(window)
    window.resize(700, 300)
    plot.setGeometry(0, 200, 700, 100)  # lower than the read-out is high
    with qtbot.waitExposed(window):
        window.show()
    run_series, ids = many_devices(10)
    plot.show_series(run_series, dict.fromkeys(ids, "#ffffff"), {device: device.upper() for device in ids})
    plot.redraw()
    for at in (0.0, 4.0, 8.0):
        plot.canvas.pointed.emit(at)
        label = plot.hover.label
        assert label.isVisible()
        assert label.parentWidget() is window
        assert label.size() == label.sizeHint()
        assert window.rect().contains(label.geometry()), "nothing of it is cut off"
    rows = read_rows(label.text())
    assert [row[0] for row in rows] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4"]
    assert [row[2] for row in rows] == ["GPU-5", "GPU-6", "GPU-7", "GPU-8", "GPU-9"]
    assert rows[0][1] == "50\u2009%"
    plot.hide()
    assert not label.isVisible(), "it vanishes with its plot"


def test_missing_readings_are_gaps_in_device_lines(plots, run_series) -> None:
    draw(run_series, *plots.values())
    busy, memory = plots["utilisationPlot"].curves(), plots["memoryPlot"].curves()
    assert set(busy) == set(memory) == set(COLOURS)
    x, y = busy["cpu:1"]
    np.testing.assert_array_equal(x, np.arange(60))
    assert np.isnan(y[20:30]).all()
    assert np.isfinite(y[30:]).all()
    np.testing.assert_array_equal(memory["cpu:0"][1], np.full(60, 3.0))
    assert plots["utilisationPlot"].canvas.view.viewRange()[1] == [-2, 104]


PURE = {"cpu:0": "#00ff00", "cpu:1": "#ff00ff"}
"""Colours that appear nowhere else, so that antialiased lines are found."""


def line_columns(plot: Plot, device: str) -> np.ndarray:
    """Return the pixel columns of the canvas in which the device's line, drawn in its `PURE` colour, is visible."""
    image = plot.canvas.grab().toImage().convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    pixels = rows[:, : 3 * image.width()].reshape(image.height(), image.width(), 3).astype(int)
    green = pixels[..., 1] - np.maximum(pixels[..., 0], pixels[..., 2])
    magenta = np.minimum(pixels[..., 0], pixels[..., 2]) - pixels[..., 1]
    return np.flatnonzero(((green if device == "cpu:0" else magenta) > 50).any(axis=0))


def draw_in_pure_colours(run_series: RunSeries, plot: Plot) -> None:
    plot.show_series(run_series, PURE, LABELS)
    plot.redraw()


def test_constant_line_is_painted_without_bridging_a_gap(plots) -> None:
    plot = plots["utilisationPlot"]
    constant: list[float | None] = [50.0] * 60
    constant[30:40] = [None] * 10
    series = readings({"cpu:0": constant, "cpu:1": [None] * 60})
    draw_in_pure_colours(series, plot)
    columns = line_columns(plot, "cpu:0")
    left = plot.canvas.view.sceneBoundingRect().left()
    per_second = plot.canvas.view.width() / 59
    seconds = (columns - left) / per_second
    assert seconds.min() == pytest.approx(0, abs=0.3)
    assert seconds.max() == pytest.approx(59, abs=0.3)
    assert not ((seconds > 29.3) & (seconds < 39.7)).any()
    assert (np.diff(columns) > 1).sum() == 1, "exactly one gap"


def test_single_reading_is_visible_and_removed_with_its_data(plots) -> None:
    plot = plots["utilisationPlot"]
    single: list[float | None] = [None] * 20
    single[10] = 50.0
    draw_in_pure_colours(readings({"cpu:0": single, "cpu:1": [None] * 20}), plot)
    columns = line_columns(plot, "cpu:0")
    assert 3 <= len(columns) <= 8
    draw_in_pure_colours(readings({"cpu:0": [None] * 20, "cpu:1": [50.0] * 20}), plot)
    assert len(line_columns(plot, "cpu:0")) == 0


def test_removed_device_has_no_line(plots) -> None:
    plot = plots["utilisationPlot"]
    draw_in_pure_colours(readings({"cpu:0": [20.0] * 9, "cpu:1": [80.0] * 9}), plot)
    assert set(plot.curves()) == {"cpu:0", "cpu:1"}
    assert len(line_columns(plot, "cpu:1")) > 100
    draw_in_pure_colours(readings({"cpu:0": [20.0] * 9}), plot)
    assert set(plot.curves()) == {"cpu:0"}
    assert len(line_columns(plot, "cpu:1")) == 0


def test_drop_constant_points_keeps_ends_bends_and_gaps() -> None:
    nan = np.nan
    y = np.array([5.0, 5, 5, 7, 7, 7, 7, nan, nan, 7, 7, 7, 8])
    x, kept = drop_constant_points(np.arange(13.0), y)
    np.testing.assert_array_equal(x, [0, 2, 3, 6, 7, 8, 9, 11, 12])
    np.testing.assert_array_equal(kept, y[[0, 2, 3, 6, 7, 8, 9, 11, 12]])
    for few in (y[:0], y[:1], y[:2]):
        np.testing.assert_array_equal(drop_constant_points(np.arange(float(len(few))), few)[1], few)


# -- labels at the ends of lines


def test_each_line_is_labelled_at_its_end_without_overlap(plots) -> None:
    plot = plots["memoryPlot"]
    series = RunSeries()
    for second in range(5):
        for number in range(6):
            series.add_reading(f"gpu-{number}", START + second, 50.0, 2**30)  # all lines are one
    plot.show_series(series, {}, {f"gpu-{number}": f"GPU {number}" for number in range(6)})
    plot.redraw()
    assert [label.text for label in plot.margin.right] == [f"GPU {number}" for number in range(6)]
    assert {label.y for label in plot.margin.right} == {1.0}
    drawn = [place for place in moved_apart([50.0] * 6, 0, 100, 12) if place is not None]
    assert min(np.diff(sorted(drawn))) >= 12
    assert 0 <= min(drawn) <= max(drawn) <= 100
    assert moved_apart([5.0, 6.0, 20.0, 50.0, 51.0], 0, 55, 12) == [5, None, 20, 50, None], "none is far from its line"
    assert stand_for_others([5.0, 6.0, 20.0, 50.0, 51.0], [5, None, 20, 50, None]) == {0: 1, 3: 1}
    assert moved_apart([10.0, 90.0], 0, 100, 12) == [10, 90], "labels stay beside their lines"
    draw_in_pure_colours(readings({"cpu:0": [20.0] * 9}), plots["utilisationPlot"])
    assert plots["utilisationPlot"].margin.right == (), "a single line needs no label"


# -- while no run is shown


def test_unticked_devices_are_faint_and_cpu_devices_are_left_out_beside_gpus(plots) -> None:
    plot = plots["memoryPlot"]
    series = RunSeries()
    for device in ("gpu-1", "cpu:0", "gpu-0"):
        series.add_reading(device, START, 50.0, 2**30)
        series.add_reading(device, START + 1, 50.0, 2**30)
    colours = {"gpu-0": "#ff0000", "gpu-1": "#00ff00", "cpu:0": "#0000ff"}
    plot.show_series(series, colours, {})
    plot.emphasise([])
    plot.redraw()
    assert set(plot.lines()) == {"gpu-0", "gpu-1"}
    assert not any(line.faint for line in plot.lines().values()), "nothing is ticked"
    plot.emphasise(["gpu-1"])
    plot.redraw()
    assert {device: line.faint for device, line in plot.lines().items()} == {"gpu-0": True, "gpu-1": False}
    assert plot.lines()["gpu-1"].pen.color().name() == "#00ff00"
    assert contrast(plot.lines()["gpu-0"].pen.color().name(), DARK.panel) < contrast("#ff0000", DARK.panel)
    assert [row.label for row in plot.reading_at(0.0).rows[1:]] == ["gpu-1", "gpu-0"], "ticked devices come first"
    plot.emphasise(["cpu:0"])
    plot.redraw()
    assert set(plot.lines()) == {"gpu-0", "gpu-1", "cpu:0"}
    plot.emphasise(None)
    plot.redraw()
    assert set(plot.lines()) == {"gpu-0", "gpu-1", "cpu:0"}
    assert not any(line.faint for line in plot.lines().values())
    plot = plots["utilisationPlot"]
    plot.emphasise([])
    draw_in_pure_colours(readings({"cpu:0": [20.0] * 9, "cpu:1": [30.0] * 9}), plot)
    assert set(plot.curves()) == {"cpu:0", "cpu:1"}, "there are no GPUs"
