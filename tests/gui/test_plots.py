"""The plots draw what the book says, and say so when there is nothing to draw."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from core.book import SeriesBook
from gui.plots import PLOTS, TimeLink
from gui.plots.axes import clock, log_positions, number, round_spacing, time_spacing
from gui.plots.bundle import bends
from gui.plots.end_mark import ENDED, PAUSED
from gui.theme import DARK, LIGHT

if TYPE_CHECKING:
    from gui.plots.base import Plot

STEPS, PER_EPOCH, START = 460, 23, 1000.0
COLOURS = {"cpu:0": "#4d9bff", "cpu:1": "#ff9f45"}
LABELS = {"cpu:0": "CPU 0", "cpu:1": "CPU 1"}


def losses() -> np.ndarray:
    """A falling noisy loss with a gap and a value below zero, shape (STEPS,)."""
    values = 2 * np.exp(-np.arange(STEPS) / 150) + np.random.default_rng(0).normal(0, 0.02, STEPS) + 0.1
    values[100:110] = np.nan
    values[200] = -1.0
    return values


def events() -> list[dict]:
    """A run of STEPS steps, one a tenth of a second, begun 2 s after its start, and 60 s of samples."""
    found: list[dict] = [
        {"t": START, "kind": "state", "state": "starting"},
        {"t": START, "kind": "plan", "steps_per_epoch": PER_EPOCH},
    ]
    values = losses()
    for first in range(1, STEPS + 1, 10):
        batch = values[first - 1 : first + 9].tolist()
        ended = START + 2 + (first + 9) / 10
        metrics = {"loss": batch, "accuracy": [1 - value for value in batch]}
        found.append({"t": ended, "kind": "metrics", "since": ended - 0.9, "first": first, "values": metrics})
    found += (
        {"t": START + 2 + step / 10, "kind": "metrics", "first": step, "values": {"val_loss": [step / 100]}}
        for step in range(PER_EPOCH, STEPS + 1, PER_EPOCH)
    )
    for second in range(60):
        for device in COLOURS:
            reading = None if device == "cpu:1" and 20 <= second < 30 else 80.0
            found.append(
                {
                    "t": START + second,
                    "kind": "sample",
                    "device": device,
                    "utilisation_percent": reading,
                    "memory_used_bytes": 3 * 2**30,
                }
            )
    found.append({"t": START + 50, "kind": "state", "state": "releasing"})
    return sorted(found, key=lambda event: event["t"])


@pytest.fixture
def book() -> SeriesBook:
    """The book of that run."""
    made = SeriesBook()
    made.fold(events())
    return made


@pytest.fixture
def plots(qtbot) -> dict[str, Plot]:
    """Every plot, shown, 900 x 400 pixels; the loss over steps, which are easy to count."""
    made = {row.name: row.make(DARK) for row in PLOTS}
    for plot in made.values():
        qtbot.addWidget(plot)
        plot.resize(900, 400)
        with qtbot.waitExposed(plot):
            plot.show()
    choose(made["lossPlot"], "axis_box", "step")
    return made


def test_at_first_all_plots_are_over_time(qtbot) -> None:
    made = [row.make(DARK) for row in PLOTS]
    for plot in made:
        qtbot.addWidget(plot)
    assert [plot.axis_name() for plot in made] == ["time", "time", "time"]


def draw(book: SeriesBook | None, *plots: Plot) -> None:
    """Give the plots this book, as the window does, and let them draw."""
    for plot in plots:
        plot.show_book(book, COLOURS, LABELS)
    for plot in plots:
        plot.redraw()


def choose(plot: Plot, box: str, data: object) -> None:
    """Choose an entry of one of the plot's boxes by what it stands for."""
    widget = getattr(plot.controls, box)
    widget.setCurrentIndex(widget.findData(data))
    plot.redraw()


def test_every_plot_has_its_object_name(plots) -> None:
    assert list(plots) == ["lossPlot", "utilisationPlot", "memoryPlot"]
    assert all(plot.objectName() == name and plot.accessibleName() for name, plot in plots.items())


def test_the_loss_plot_draws_every_step_its_mean_and_validation(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    curves = loss.curves()
    assert set(curves) == {"loss", "loss (mean)", "val_loss"}
    x, y = curves["loss"]
    np.testing.assert_array_equal(x, np.arange(1, STEPS + 1))
    np.testing.assert_array_equal(y, losses())
    x, y = curves["loss (mean)"]
    np.testing.assert_allclose(y[49], losses()[40:50].mean())
    np.testing.assert_allclose(curves["val_loss"][1], np.arange(PER_EPOCH, STEPS + 1, PER_EPOCH) / 100)


def test_new_measurements_are_drawn_at_the_next_redraw(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    more = {"t": START + 99, "kind": "metrics", "since": START + 98, "first": STEPS + 1, "values": {"loss": [7.0, 8.0]}}
    book.fold([more])
    loss.redraw()
    x, y = loss.curves()["loss"]
    assert (x[-1], y[-1]) == (STEPS + 2, 8.0)
    assert loss.canvas.x_range == (0, STEPS + 2)


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


def test_smoothing_can_be_set_and_switched_off(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    choose(loss, "smoothing_box", 50)
    np.testing.assert_allclose(loss.curves()["loss (mean)"][1][49], losses()[:50].mean())
    choose(loss, "smoothing_box", 0)
    assert "loss (mean)" not in loss.curves()


def test_the_x_axis_can_be_steps_time_or_epochs(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    for axis, last in (("time", 2 + STEPS / 10 + 0.1), ("epoch", STEPS / PER_EPOCH), ("step", STEPS)):
        choose(loss, "axis_box", axis)
        x, _ = loss.curves()["loss"]
        assert x[-1] == pytest.approx(last, abs=0.2)


def test_a_choice_of_epochs_stays_although_they_are_not_known_yet(plots) -> None:
    loss, bare = plots["lossPlot"], SeriesBook()
    bare.fold([{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0, 2.0]}}])
    choose(loss, "axis_box", "epoch")
    draw(bare, loss)
    assert loss.axis_name() == "epoch"
    assert not loss.controls.axis_box.model().item(2).isEnabled()
    bare.fold([{"t": 2.0, "kind": "plan", "steps_per_epoch": 2}])
    loss.redraw()
    assert loss.controls.axis_box.model().item(2).isEnabled()
    assert loss.curves()["loss"][0].tolist() == [0.5, 1.0]


def test_on_a_logarithmic_scale_what_is_not_positive_is_a_gap(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    loss.controls.log_box.setChecked(True)
    loss.redraw()
    _, y = loss.curves()["loss"]
    assert np.isnan(y[200])
    assert np.isnan(y[100:110]).all()
    np.testing.assert_array_equal(y[111:200], losses()[111:200])
    lo, hi = loss.canvas.view.viewRange()[1]
    assert lo < np.log10(np.nanmin(y))
    assert hi > np.log10(np.nanmax(y))


def test_another_metric_can_be_chosen(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    choose(loss, "metric_box", "accuracy")
    np.testing.assert_allclose(loss.curves()["accuracy"][1], 1 - losses())
    assert "val_accuracy" not in loss.curves()
    only_loss = SeriesBook()
    only_loss.fold([{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0]}}])
    draw(only_loss, loss)
    assert set(loss.curves()) == {"loss", "loss (mean)"}
    assert loss.title.isVisible()
    draw(book, loss)
    assert set(loss.curves()) == {"accuracy", "accuracy (mean)"}  # the choice was that of the user, and stays


def another_leg(step: int) -> list[dict]:
    """The run goes on at `step`, 100 s after its start, with losses of 7."""
    again = START + 100
    return [
        {"t": again, "kind": "state", "state": "starting"},
        {"t": again + 1, "kind": "plan", "steps_per_epoch": PER_EPOCH},
        {"t": again + 1, "kind": "rewind", "step": step},
        {"t": again + 4, "kind": "metrics", "since": again + 2, "first": step + 1,
         "values": {"loss": [7.0] * 30, "accuracy": [0.5] * 30}},
    ]  # fmt: skip


@pytest.mark.parametrize("axis", ["step", "time", "epoch"])
def test_a_run_that_goes_on_from_an_older_step_is_drawn_from_there(plots, book, axis) -> None:
    loss, step = plots["lossPlot"], 230
    choose(loss, "axis_box", axis)
    draw(book, *plots.values())
    for event in another_leg(step):  # each followed by a redraw: what is void must not stay, nor break anything
        book.fold([event])
        for plot in plots.values():
            plot.redraw()
    curves = loss.curves()
    np.testing.assert_array_equal(curves["loss"][1], [*losses()[:step], *[7.0] * 30])
    assert (np.diff(curves["loss"][0]) > 0).all()
    np.testing.assert_allclose(curves["val_loss"][1], np.arange(PER_EPOCH, step + 1, PER_EPOCH) / 100)
    assert loss.read(loss.canvas.x_range[1]).text.splitlines()[1] == "train 7"
    assert plots["memoryPlot"].end.line.isVisible() is False


def gaps(plot: Plot, past: float) -> list[float]:
    """Where lines are interrupted, past the one gap that the losses have anyway."""
    return [place for x, y in plot.curves().values() for place in x[~np.isfinite(y)] if place > past]


def test_nothing_is_drawn_across_a_pause(plots, book) -> None:
    loss, step = plots["lossPlot"], 230
    choose(loss, "axis_box", "time")
    book.fold(another_leg(step))
    draw(book, loss)
    assert gaps(loss, past=20) == []
    loss.show_story(ENDED, (START + 100,))
    loss.redraw()
    assert gaps(loss, past=20) == [100, 100], "in the line of every step and in their mean"
    choose(loss, "axis_box", "step")
    assert gaps(loss, past=110) == [], "over steps there is no pause"


def test_training_that_is_paused_has_not_ended(plots, book) -> None:
    memory = plots["memoryPlot"]
    draw(book, memory)
    assert memory.end.label.toPlainText() == "training ended"
    memory.show_story(PAUSED, ())
    memory.redraw()
    assert memory.end.label.toPlainText() == "training paused"


def test_a_loss_that_is_no_number_is_said_and_not_drawn_over_the_axis_of_another(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    void = SeriesBook()
    void.fold([{"t": START, "kind": "metrics", "first": 1, "values": {"loss": [float("nan"), float("inf")]}}])
    draw(void, loss)
    assert loss.empty.isVisible()
    assert loss.empty.text() == "No loss so far is a number"
    void.fold([{"t": START + 1, "kind": "state", "state": "releasing"}])
    loss.redraw()
    assert loss.empty.text() == "No loss of this run is a number"
    draw(SeriesBook(), loss)
    assert loss.empty.text() == "No measurements yet"


def test_the_chooser_of_the_metric_is_as_wide_as_its_text(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    box = loss.controls.metric_box
    narrow = box.sizeHint().width()
    choose(loss, "metric_box", "accuracy")
    more = box.fontMetrics().horizontalAdvance("ACCURACY") - box.fontMetrics().horizontalAdvance("LOSS")
    assert box.sizeHint().width() - narrow == more > 0
    box.setItemText(1, "X" * 99)
    assert box.sizeHint().width() < narrow + 10 * box.fontMetrics().horizontalAdvance("X")


def test_a_run_that_begins_anew_keeps_the_chosen_metric(plots, book) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    choose(loss, "metric_box", "accuracy")
    *before, measured = another_leg(0)
    book.fold(before)
    loss.redraw()
    assert not loss.curves()
    assert loss.empty.isVisible()
    book.fold([measured])
    loss.redraw()
    np.testing.assert_array_equal(loss.curves()["accuracy"][1], [0.5] * 30)


def test_the_newest_values_stand_beside_the_title(plots, book) -> None:
    draw(book, *plots.values())
    texts = {name: plot._values.text() for name, plot in plots.items()}
    assert f"{np.nanmean(losses()[-10:]):.4g}" in texts["lossPlot"]
    assert "4.6" in texts["lossPlot"]
    assert "CPU 0" in texts["utilisationPlot"]
    assert "80\u2009%" in texts["utilisationPlot"]
    assert "3.0 GB" in texts["memoryPlot"]


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


def test_the_mouse_reads_the_nearest_step(plots, book, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(book, loss)
    reading = loss.read(46.2)
    assert reading is not None
    assert reading.x == 46
    assert reading.text.splitlines() == [
        "step 46 \u00b7 epoch 2.00 \u00b7 0:07",
        f"train {losses()[45]:.5g}",
        "validation 0.46 at step 46",
    ]

    def pointed_at() -> bool:
        for x in (440, 450):  # only a mouse that moves is noticed, and not more often than pyqtgraph wants
            qtbot.mouseMove(loss.canvas.viewport(), QPoint(x, 200))
        return loss.hover.label.isVisible()

    qtbot.waitUntil(pointed_at)
    assert "step" in loss.hover.label.text()
    loss.hover.point(None)
    assert not loss.hover.label.isVisible()


def test_the_mouse_reads_every_device(plots, book) -> None:
    draw(book, *plots.values())
    utilisation = plots["utilisationPlot"].read(25.1)
    memory = plots["memoryPlot"].read(25.1)
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
    draw(SeriesBook(), memory)
    going = SeriesBook()
    going.fold(event for event in events() if event.get("state") != "releasing")
    draw(going, memory)
    assert not memory.end.line.isVisible()


@pytest.mark.parametrize("nothing", [None, SeriesBook()], ids=["no run", "an empty run"])
def test_a_plot_without_data_says_so(plots, book, nothing) -> None:
    draw(book, *plots.values())
    assert all(plot.canvas.isVisible() for plot in plots.values())
    draw(nothing, *plots.values())
    for plot in plots.values():
        assert plot.empty.isVisible()
        assert plot.empty.text()
        assert not plot.canvas.isVisible()
        assert plot.curves() == {}


def test_a_lone_measurement_is_seen(plots) -> None:
    loss, lone = plots["lossPlot"], SeriesBook()
    lone.fold([{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0]}}])
    choose(loss, "smoothing_box", 0)
    draw(lone, loss)
    image = loss.canvas.grab().toImage()
    drawn = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
    assert DARK.train in drawn


def readings(values: dict[str, list[float | None]]) -> SeriesBook:
    """A book with readings of some devices, once a second."""
    made = SeriesBook()
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


def draw_purely(book: SeriesBook, plot: Plot) -> None:
    plot.show_book(book, PURE, LABELS)
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
    x, kept = bends(np.arange(13.0), y)
    np.testing.assert_array_equal(x, [0, 2, 3, 6, 7, 8, 9, 11, 12])
    np.testing.assert_array_equal(kept, y[[0, 2, 3, 6, 7, 8, 9, 11, 12]])
    for few in (y[:0], y[:1], y[:2]):
        np.testing.assert_array_equal(bends(np.arange(float(len(few))), few)[1], few)


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
    other = SeriesBook()
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


def test_ten_million_points_are_drawn_with_a_few_thousand(plots) -> None:
    loss, long = plots["lossPlot"], SeriesBook()
    long.fold([{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0, 2.0]}}])
    series = long.metrics["loss"]
    values = np.ones(10_000_000)
    values[7_654_321] = 50.0
    series.append(np.arange(3.0, 10_000_003), np.linspace(1, 1e5, 10_000_000), values)
    draw(long, loss)
    _, y = loss.curves()["loss"]
    assert len(y) < 4 * loss.canvas.pixels
    assert y.max() == 50.0


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
def test_times_read_like_a_clock(seconds: float, spacing: float, text: str) -> None:
    assert clock(seconds, spacing) == text


@pytest.mark.parametrize(
    ("value", "spacing", "text"),
    [(12_000, 500, "12\u2009000"), (0.25, 0.25, "0.25"), (2.5, 2.5, "2.5"), (-0.0, 0.1, "0.0"), (3e-6, 1e-6, "3e-06")],
)
def test_numbers_have_the_places_that_they_need(value: float, spacing: float, text: str) -> None:
    assert number(value, spacing) == text


def test_ticks_stand_at_round_places() -> None:
    assert [round_spacing(least) for least in (0.03, 1, 1.1, 2.2, 30, 700)] == [0.05, 1, 2, 2.5, 50, 1000]
    assert [time_spacing(least) for least in (0.2, 3, 16, 700, 50_000, 100_000)] == [0.2, 5, 30, 900, 86_400, 172_800]
    np.testing.assert_allclose(log_positions(-1, 1, 20), np.log10([0.1, 0.2, 0.5, 1, 2, 5, 10]))
    np.testing.assert_allclose(log_positions(-3, 3, 4), [-3, -1, 1, 3])
    assert len(log_positions(0.31, 0.45, 10)) >= 2


def test_a_loss_at_the_end_of_the_range_is_drawn(plots) -> None:
    loss, extreme = plots["lossPlot"], SeriesBook()
    extreme.fold([{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0, -1.7e308, 1.7e308]}}])
    draw(extreme, loss)
    assert loss.curves()["loss"][1].tolist() == [1.0, -1.7e308, 1.7e308]


def test_a_long_metric_name_does_not_widen_the_plot(plots) -> None:
    loss, named = plots["lossPlot"], SeriesBook()
    named.fold([{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0], "x" * 500: [2.0]}}])
    draw(named, loss)
    assert loss.minimumSizeHint().width() < 900


def test_the_mark_of_the_end_is_seen_although_no_reading_came_after_it(plots, book) -> None:
    memory = plots["memoryPlot"]
    book.fold([{"t": START + 75, "kind": "state", "state": "releasing"}])
    draw(book, memory)
    left, right = memory.canvas.x_range
    assert left == 0
    assert 75 < right < 80  # with a little room after it
    assert memory.end.line.value() == 75


# -- several ranks -------------------------------------------------------------------------------


def ranked(*ranks: list[float], name: str = "loss", every_s: float = 1.0) -> SeriesBook:
    """A book in which each rank has measured these values at steps 1, 2, ...; a rank is later by a tenth of a step."""
    made = SeriesBook()
    made.fold([{"t": START, "kind": "state", "state": "starting"}])
    for rank, values in enumerate(ranks):
        full = f"{name}@{rank}" if rank else name
        begun = START + every_s * (1 + rank / 10)
        ended = begun + every_s * (len(values) - 1)
        made.fold([{"t": ended, "kind": "metrics", "since": begun, "first": 1, "values": {full: values}}])
    return made


@pytest.mark.parametrize("axis", ["step", "time"])
def test_ranks_are_drawn_as_their_mean_and_a_band(plots, axis) -> None:
    loss = plots["lossPlot"]
    choose(loss, "axis_box", axis)
    choose(loss, "smoothing_box", 0)
    draw(ranked([1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [2.0, 3.0, 7.0]), loss)
    assert loss.controls.metric_box.count() == 1
    curves = loss.curves()
    assert set(curves) == {"loss (mean)", "loss (spread)"}
    np.testing.assert_allclose(curves["loss (mean)"][1], [2, 3, 5])
    np.testing.assert_allclose(curves["loss (spread)"][1], [1, 2, 3, 3, 4, 7])
    if axis == "step":
        np.testing.assert_allclose(curves["loss (mean)"][0], [1, 2, 3])


def test_a_rank_without_a_number_neither_counts_nor_hides_the_others(plots) -> None:
    loss = plots["lossPlot"]
    choose(loss, "smoothing_box", 0)
    nan, inf = float("nan"), float("inf")
    draw(ranked([1.0, nan, nan, 1.0, 5.0], [3.0, 4.0, nan, inf, 7.0]), loss)
    np.testing.assert_allclose(loss.curves()["loss (mean)"][1], [2, 4, nan, 1, 6])
    np.testing.assert_allclose(loss.curves()["loss (spread)"][1], [1, 4, nan, 1, 5, 3, 4, nan, 1, 7])
    assert len(loss._spread._area.polygons) == 2, "a gap is a gap"


def test_a_rank_that_lags_behind_is_no_drop(plots) -> None:
    loss = plots["lossPlot"]
    choose(loss, "smoothing_box", 0)
    draw(ranked([4.0] * 9, [8.0] * 5), loss)
    np.testing.assert_allclose(loss.curves()["loss (mean)"][1], [6] * 5 + [4] * 4)


def test_ranks_are_smoothed_each_by_itself(plots) -> None:
    loss = plots["lossPlot"]
    rng = np.random.default_rng(0)
    one, other = rng.normal(1, 0.1, 60), rng.normal(3, 0.1, 60)
    draw(ranked(one.tolist(), other.tolist()), loss)
    _, y = loss.curves()["loss (mean)"]
    np.testing.assert_allclose(y[29], (one[20:30].mean() + other[20:30].mean()) / 2)
    assert "2.0" in loss._values.text() or "1.9" in loss._values.text()


def test_validation_of_several_ranks_has_a_band_too(plots) -> None:
    loss = plots["lossPlot"]
    made = ranked([1.0, 2.0])
    for rank, value in enumerate((5.0, 7.0)):
        name = f"val_loss@{rank}" if rank else "val_loss"
        made.fold([{"t": START + 9, "kind": "metrics", "first": 2, "values": {name: [value]}}])
    draw(made, loss)
    curves = loss.curves()
    np.testing.assert_allclose(curves["val_loss"][1], [6])
    np.testing.assert_allclose(curves["val_loss (spread)"][1], [5, 7])
    np.testing.assert_allclose(curves["loss"][1], [1, 2])
    assert loss.controls.metric_box.count() == 1


def test_a_metric_at_a_rank_of_results_is_no_rank_of_the_run(plots) -> None:
    loss = plots["lossPlot"]
    made = ranked([1.0, 2.0], [2.0, 3.0])
    made.fold([{"t": START + 3, "kind": "metrics", "first": 1, "values": {"recall@10": [0.5]}}])
    draw(made, loss)
    box = loss.controls.metric_box
    assert [box.itemData(row) for row in range(box.count())] == ["loss", "recall@10"]


def test_the_mouse_reads_the_mean_and_how_far_ranks_are_apart(plots) -> None:
    loss = plots["lossPlot"]
    draw(ranked([1.0, 2.0, 3.0], [3.0, 4.0, float("nan")]), loss)
    assert [row.value for row in loss.read(2.1).rows[1:]] == ["3 (2 to 4)"]
    assert [row.value for row in loss.read(3.4).rows[1:]] == ["3"]


def test_on_a_logarithmic_scale_a_band_ends_where_nothing_is_positive(plots) -> None:
    loss = plots["lossPlot"]
    choose(loss, "smoothing_box", 0)
    loss.controls.log_box.setChecked(True)
    draw(ranked([1.0, -2.0, 3.0], [3.0, -4.0, 5.0]), loss)
    np.testing.assert_allclose(loss.curves()["loss (mean)"][1], [2, np.nan, 4])
    np.testing.assert_allclose(loss.curves()["loss (spread)"][1], [1, np.nan, 3, 3, np.nan, 5])


@pytest.mark.parametrize("axis", ["step", "time"])
def test_a_million_steps_of_ranks_are_drawn_with_a_few_thousand_points(plots, axis) -> None:
    loss = plots["lossPlot"]
    choose(loss, "axis_box", axis)
    count = 1_000_000
    low, high = np.full(count, 1.0), np.full(count, 3.0)
    low[400_000], high[600_000] = -9.0, 11.0
    draw(ranked(low.tolist(), high.tolist(), every_s=0.01), loss)
    curves = loss.curves()
    x, y = curves["loss (mean)"]
    assert len(x) <= 2 * loss.canvas.pixels + 4
    np.testing.assert_allclose(np.nanmedian(y), 2)
    _, ends = curves["loss (spread)"]
    assert (np.nanmin(ends), np.nanmax(ends)) == (-9, 11), "no spike is lost"
    assert np.isfinite(y).all()
