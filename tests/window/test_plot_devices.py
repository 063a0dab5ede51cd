"""The plots of the devices: utilisation and memory over time, with gaps, and where training ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtGui import QImage

from core.series.run_series import RunSeries
from gui.plots.items.end_mark import PAUSED
from gui.plots.items.multi_line import drop_constant_points
from tests.window.plotted import COLOURS, LABELS, START, draw, events

if TYPE_CHECKING:
    from gui.plots.base import Plot


def test_training_that_is_paused_has_not_ended(plots, book) -> None:
    memory = plots["memoryPlot"]
    draw(book, memory)
    assert memory.end.label.toPlainText() == "training ended"
    memory.show_training_end(PAUSED, ())
    memory.redraw()
    assert memory.end.label.toPlainText() == "training paused"


def test_a_note_takes_the_place_of_the_newest_values(plots, book) -> None:
    memory = plots["memoryPlot"]
    draw(book, memory)
    memory.set_note("released in 1.8 s", "good")
    assert memory._note.isVisible()
    assert not memory._values.isVisible()
    memory.set_note("")
    assert memory._values.isVisible()


def test_a_note_that_has_no_room_is_cut_and_its_tooltip_has_all_of_it(plots, book) -> None:
    memory = plots["memoryPlot"]
    draw(book, memory)
    memory.set_note("held by others: GPU 0, GPU 1, GPU 2 and GPU 3 " * 10, "warn")
    blank = memory._note.grab().toImage()
    blank.fill(blank.pixelColor(0, 0))
    assert memory._note.grab().toImage() != blank
    assert memory._note.toolTip() == memory._note.text()


def test_the_mouse_reads_every_device(plots, book) -> None:
    draw(book, *plots.values())
    utilisation = plots["utilisationPlot"].reading_at(25.1)
    memory = plots["memoryPlot"].reading_at(25.1)
    assert utilisation is not None
    assert utilisation.text.splitlines() == ["0:25", "CPU 0 80\u2009%", "CPU 1 \u2013"]
    assert memory is not None
    assert memory.text.splitlines() == ["0:25", "CPU 0 3.0 GB", "CPU 1 3.0 GB"]


def test_devices_are_drawn_over_time_with_gaps_where_there_was_no_reading(plots, book) -> None:
    draw(book, *plots.values())
    busy, held = plots["utilisationPlot"].curves(), plots["memoryPlot"].curves()
    assert set(busy) == set(held) == set(COLOURS)
    x, y = busy["cpu:1"]
    np.testing.assert_array_equal(x, np.arange(60))
    assert np.isnan(y[20:30]).all()
    assert np.isfinite(y[30:]).all()
    np.testing.assert_array_equal(held["cpu:0"][1], np.full(60, 3.0))
    assert plots["utilisationPlot"].canvas.view.viewRange()[1] == [-2, 104]


def test_the_end_of_training_is_marked_on_the_memory_plot(plots, book) -> None:
    memory = plots["memoryPlot"]
    draw(book, memory)
    assert memory.end.line.isVisible()
    assert memory.end.line.value() == 50
    draw(RunSeries(), memory)
    going = RunSeries()
    going.fold(event for event in events() if event.get("state") != "releasing")
    draw(going, memory)
    assert not memory.end.line.isVisible()


def test_the_mark_of_the_end_is_seen_although_no_reading_came_after_it(plots, book) -> None:
    memory = plots["memoryPlot"]
    book.fold([{"t": START + 75, "kind": "state", "state": "releasing"}])
    draw(book, memory)
    left, right = memory.canvas.x_range
    assert left == 0
    assert 75 < right < 80  # with a little room after it
    assert memory.end.line.value() == 75


def readings(values: dict[str, list[float | None]]) -> RunSeries:
    """A book with readings of some devices, once a second."""
    made = RunSeries()
    for second in range(max(map(len, values.values()))):
        for device, column in values.items():
            made.add_reading(device, START + second, column[second], None)
    return made


PURE = {"cpu:0": "#00ff00", "cpu:1": "#ff00ff"}
"""Colours that nothing else has, so that a line is found whose pixels are mixed with the ground."""


def painted(plot: Plot, device: str) -> np.ndarray:
    """In which columns of pixels of a plot's canvas the line of a device is seen, drawn in its colour of `PURE`."""
    image = plot.canvas.grab().toImage().convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    pixels = rows[:, : 3 * image.width()].reshape(image.height(), image.width(), 3).astype(int)
    green = pixels[..., 1] - np.maximum(pixels[..., 0], pixels[..., 2])
    magenta = np.minimum(pixels[..., 0], pixels[..., 2]) - pixels[..., 1]
    return np.flatnonzero(((green if device == "cpu:0" else magenta) > 50).any(axis=0))


def draw_purely(book: RunSeries, plot: Plot) -> None:
    plot.show_series(book, PURE, LABELS)
    plot.redraw()


def test_a_level_line_is_painted_from_its_first_reading_to_its_last_and_not_across_a_gap(plots) -> None:
    plot = plots["utilisationPlot"]
    level: list[float | None] = [50.0] * 60
    level[30:40] = [None] * 10
    made = readings({"cpu:0": level, "cpu:1": [None] * 60})
    draw_purely(made, plot)
    columns = painted(plot, "cpu:0")
    left = plot.canvas.view.sceneBoundingRect().left()
    per_second = plot.canvas.view.width() / 59
    seconds = (columns - left) / per_second
    assert seconds.min() == pytest.approx(0, abs=0.3)
    assert seconds.max() == pytest.approx(59, abs=0.3)
    assert not ((seconds > 29.3) & (seconds < 39.7)).any()
    assert (np.diff(columns) > 1).sum() == 1, "one gap, and no other"


def test_a_lone_reading_of_a_device_is_seen_and_no_longer_once_it_has_neighbours(plots) -> None:
    plot = plots["utilisationPlot"]
    lone: list[float | None] = [None] * 20
    lone[10] = 50.0
    draw_purely(readings({"cpu:0": lone, "cpu:1": [None] * 20}), plot)
    columns = painted(plot, "cpu:0")
    assert 3 <= len(columns) <= 8
    draw_purely(readings({"cpu:0": [None] * 20, "cpu:1": [50.0] * 20}), plot)
    assert len(painted(plot, "cpu:0")) == 0


def test_a_device_that_is_gone_has_no_line(plots) -> None:
    plot = plots["utilisationPlot"]
    draw_purely(readings({"cpu:0": [20.0] * 9, "cpu:1": [80.0] * 9}), plot)
    assert set(plot.curves()) == {"cpu:0", "cpu:1"}
    assert len(painted(plot, "cpu:1")) > 100
    draw_purely(readings({"cpu:0": [20.0] * 9}), plot)
    assert set(plot.curves()) == {"cpu:0"}
    assert len(painted(plot, "cpu:1")) == 0


def test_of_a_level_stretch_the_two_ends_are_left_and_all_bends_and_gaps() -> None:
    nan = np.nan
    y = np.array([5.0, 5, 5, 7, 7, 7, 7, nan, nan, 7, 7, 7, 8])
    x, kept = drop_constant_points(np.arange(13.0), y)
    np.testing.assert_array_equal(x, [0, 2, 3, 6, 7, 8, 9, 11, 12])
    np.testing.assert_array_equal(kept, y[[0, 2, 3, 6, 7, 8, 9, 11, 12]])
    for few in (y[:0], y[:1], y[:2]):
        np.testing.assert_array_equal(drop_constant_points(np.arange(float(len(few))), few)[1], few)
