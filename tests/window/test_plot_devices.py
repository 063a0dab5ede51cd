"""The device plots: lines or strips over time, gaps, the end of training, and the plots on request."""

import time
from collections import Counter

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtGui import QImage, QTextDocument, QTextTable
from PySide6.QtWidgets import QLabel, QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from core.series.device_readings import Slowdown
from core.series.run_series import RunSeries
from gui.base.theme import DARK
from gui.plots.area import PlotArea, PlotScroll
from gui.plots.devices import slowed_at
from gui.plots.items.lines import drop_constant_points
from gui.plots.items.margin_labels import MarginLabels, moved_apart, stand_for_others
from gui.plots.registry import PLOTS
from gui.plots.run_plot import Plot
from tests.support.running import folded
from tests.support.waiting import PATIENCE_S
from tests.support.written_runs import values, write_run
from tests.window.plotted import COLOURS, LABELS, START, draw, events, readings


def test_memory_plot_marks_the_end_of_training_and_has_a_note(memory, run_series, qtbot) -> None:
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


def test_hover_of_ten_devices_is_whole_and_in_the_order_of_the_list(qtbot, hold) -> None:
    window = hold(QWidget())
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


def test_missing_readings_are_gaps_in_lines_and_in_what_is_read_out(utilisation, memory, run_series) -> None:
    draw(run_series, utilisation, memory)
    assert set(utilisation.curves()) == set(memory.curves()) == set(COLOURS)
    x, y = utilisation.curves()["cpu:1"]
    np.testing.assert_array_equal(x, np.arange(60))
    assert np.isnan(y[20:30]).all()
    assert np.isfinite(y[30:]).all()
    np.testing.assert_array_equal(memory.curves()["cpu:0"][1], np.full(60, 3.0))
    assert utilisation.canvas.view.viewRange()[1] == [-2, 104]
    assert utilisation.reading_at(25.1).text.splitlines() == ["0:25", "CPU 0 80\u2009%", "CPU 1 \u2013"]
    assert memory.reading_at(25.1).text.splitlines() == ["0:25", "CPU 0 3.0 GB", "CPU 1 3.0 GB"]


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


def test_lines_have_gaps_without_bridges_and_vanish_with_their_data(utilisation) -> None:
    constant: list[float | None] = [50.0] * 60
    constant[30:40] = [None] * 10
    series = readings({"cpu:0": constant, "cpu:1": [None] * 60})
    draw_in_pure_colours(series, utilisation)
    columns = line_columns(utilisation, "cpu:0")
    left = utilisation.canvas.view.sceneBoundingRect().left()
    per_second = utilisation.canvas.view.width() / 59
    seconds = (columns - left) / per_second
    assert seconds.min() == pytest.approx(0, abs=0.3)
    assert seconds.max() == pytest.approx(59, abs=0.3)
    assert not ((seconds > 29.3) & (seconds < 39.7)).any()
    assert (np.diff(columns) > 1).sum() == 1, "exactly one gap"
    single: list[float | None] = [None] * 20
    single[10] = 50.0
    draw_in_pure_colours(readings({"cpu:0": single, "cpu:1": [None] * 20}), utilisation)
    columns = line_columns(utilisation, "cpu:0")
    assert 3 <= len(columns) <= 8
    draw_in_pure_colours(readings({"cpu:0": [None] * 20, "cpu:1": [50.0] * 20}), utilisation)
    assert len(line_columns(utilisation, "cpu:0")) == 0
    draw_in_pure_colours(readings({"cpu:0": [20.0] * 9, "cpu:1": [80.0] * 9}), utilisation)
    assert set(utilisation.curves()) == {"cpu:0", "cpu:1"}
    assert len(line_columns(utilisation, "cpu:1")) > 100
    draw_in_pure_colours(readings({"cpu:0": [20.0] * 9}), utilisation)
    assert set(utilisation.curves()) == {"cpu:0"}
    assert len(line_columns(utilisation, "cpu:1")) == 0


def test_drop_constant_points_keeps_ends_bends_and_gaps() -> None:
    nan = np.nan
    y = np.array([5.0, 5, 5, 7, 7, 7, 7, nan, nan, 7, 7, 7, 8])
    x, kept = drop_constant_points(np.arange(13.0), y)
    np.testing.assert_array_equal(x, [0, 2, 3, 6, 7, 8, 9, 11, 12])
    np.testing.assert_array_equal(kept, y[[0, 2, 3, 6, 7, 8, 9, 11, 12]])
    for few in (y[:0], y[:1], y[:2]):
        np.testing.assert_array_equal(drop_constant_points(np.arange(float(len(few))), few)[1], few)


# -- labels at the ends of lines


def test_each_line_is_labelled_at_its_end_without_overlap(memory, utilisation) -> None:
    series = RunSeries()
    for second in range(5):
        for number in range(6):
            series.add_reading(f"gpu-{number}", START + second, 50.0, 2**30)  # all lines are one
    memory.show_series(series, {}, {f"gpu-{number}": f"GPU {number}" for number in range(6)})
    memory.redraw()
    assert [label.text for label in memory.margin.right] == [f"GPU {number}" for number in range(6)]
    assert {label.y for label in memory.margin.right} == {1.0}
    drawn = [place for place in moved_apart([50.0] * 6, 0, 100, 12) if place is not None]
    assert min(np.diff(sorted(drawn))) >= 12
    assert 0 <= min(drawn) <= max(drawn) <= 100
    assert moved_apart([5.0, 6.0, 20.0, 50.0, 51.0], 0, 55, 12) == [5, None, 20, 50, None], "none is far from its line"
    assert stand_for_others([5.0, 6.0, 20.0, 50.0, 51.0], [5, None, 20, 50, None]) == {0: 1, 3: 1}
    assert moved_apart([10.0, 90.0], 0, 100, 12) == [10, 90], "labels stay beside their lines"
    draw_in_pure_colours(readings({"cpu:0": [20.0] * 9}), utilisation)
    assert utilisation.margin.right == (), "a single line needs no label"


# -- while no run is shown


SIZES = {"gpu-0": 80 * 2**30, "gpu-1": 24 * 2**30}


def present(readings: dict[str, tuple[float, float | None, float | None]], *, until: float) -> RunSeries:
    """Return two minutes of the same readings of each device: per cent, bytes and degrees; none from 60 to 30 s ago."""
    series = RunSeries()
    for second in range(120, -1, -1):
        for device, (busy, used, celsius) in readings.items() if not 30 <= second < 60 else ():
            hot = ("too hot",) if celsius == 80.0 else ()
            series.add_reading(device, until - second, busy, used, (celsius, None, None, hot))
    return series


@pytest.fixture
def machine(hold) -> PlotArea:
    """The plots of a machine with two GPUs of other sizes, and a GPU of a host that is folded."""
    made = hold(PlotArea(), 900, 700)
    made.create_plots()
    series = present({"gpu-1": (20.0, 12 * 2**30, 40.0), "cpu:0": (70.0, None, None), "gpu-0": (90.0, 40 * 2**30, 80.0),
                      "far/GPU-1": (50.0, 2**30, 50.0)}, until=time.time())
    colours = {"gpu-0": "#ff0000", "gpu-1": "#00ff00", "cpu:0": "#0000ff", "far/GPU-1": "#ffffff"}
    made.show_series(None, series, colours, {}, live_devices=True, sizes=SIZES)
    made.leave_out({"far/GPU-1"})
    return made


def beside(plot: Plot) -> list[str]:
    """Return what stands beside the strips, without the room before it."""
    return [label.text.strip() for label in plot.margin.right]


def plain(label: QLabel) -> str:
    document = QTextDocument()
    document.setHtml(label.text())
    return document.toPlainText()


def settle(area: PlotArea, qtbot: QtBot) -> None:
    """Draw everything that has something to say."""
    for _ in range(3):  # a plot that appears is drawn in the next round
        area.redraw_in_turns()
        qtbot.waitUntil(lambda: not area._turns.busy)


def seen(area: PlotArea) -> list[str]:
    return [name for name in area._rows if name in area.plots and not area.plots[name].isHidden()]


def test_machine_has_strips_of_what_there_is_on_one_axis_that_says_ago(machine, qtbot) -> None:
    settle(machine, qtbot)
    assert seen(machine) == ["utilisationPlot", "memoryPlot", "temperaturePlot"], "no loss, and no power"
    plots = [machine.plots[name] for name in seen(machine)]
    assert {plot.form for plot in plots} == {"strips"}
    assert [list(plot._beside) for plot in plots] == [["gpu-0", "gpu-1"]] * 3, "neither the CPU nor the folded host"
    assert [beside(plot) for plot in plots] == [
        ["90\u2009%", "20\u2009%"], ["50\u2009%  40.0 of 80 GB", "50\u2009%  12.0 of 24 GB"], ["80 °C", "40 °C"]
    ]
    assert {label.text.index("0") for plot in plots for label in plot.margin.right} == {2}, "in one column"
    assert [plain(plot.legend) for plot in plots] == [f"  {low} {7 * '▆'} {high}" for low, high in
                                                      ((0, 100), (0, 100), (30, 90))]
    assert all(each in plots[0].legend.text() for each in (DARK.idle, DARK.busy)), "in the shades of the strips"
    assert plots[2].readout()[0].text == "1 GPU slowed down"
    shades = [[round(float(row[np.isfinite(row)][0])) for row in plot.strips.percent] for plot in plots]
    assert shades == [[90, 20], [50, 50], [83, 17]], "memory in per cent of each card's own"
    assert [plot.canvas.bottom.isVisible() for plot in plots] == [False, False, True]
    assert [plot.canvas.x_range for plot in plots] == [pytest.approx((-900, 0), abs=1e-6)] * 3
    axis = plots[-1].canvas.bottom
    assert axis.tickStrings([-900.0, -90.0, -3600.0, 0.0], 1, 30) == ["−15 min", "−90 s", "−1 h", "now"]
    image, view, canvas = plots[0].canvas.grab().toImage(), plots[0].canvas.view, plots[0].canvas
    at = [canvas.mapFromScene(view.mapViewToScene(pg.Point(x, 1.5))) for x in (-100.0, -45.0)]
    assert [image.pixelColor(point).name() == DARK.panel for point in at] == [False, True], "a gap stays a gap"
    assert plots[0]._values.text().count("55"), "the mean"
    first = machine.sizeHint().height()
    assert first == sum(plot.maximumHeight() for plot in plots) + 2 * machine.handleWidth(), "no strip is squeezed"
    machine.set_plot_shown("temperaturePlot", False)
    settle(machine, qtbot)
    assert seen(machine) == ["utilisationPlot", "memoryPlot"]
    assert plots[1].canvas.bottom.isVisible(), "the lowest one has the axis"
    assert machine.sizeHint().height() < first
    assert machine.remember()["on_machine"] == []


def test_each_strip_has_its_name_and_its_reading_however_low_the_rows_are(machine, qtbot, monkeypatch) -> None:
    busy = {f"gpu-{number}": 10 + number for number in range(8)}
    series = present({each: (float(percent), None, None) for each, percent in busy.items()}, until=time.time())
    machine.show_series(None, series, dict.fromkeys(busy, "#ff0000"), {}, live_devices=True)
    settle(machine, qtbot)
    plot, drawn = machine.plots["utilisationPlot"], set[str]()
    monkeypatch.setattr(MarginLabels, "_draw", lambda _, __, ___, text: drawn.add(text.strip()))
    for height in range(plot.minimumHeight(), plot.maximumHeight()):
        plot.setFixedHeight(height)
        drawn.clear()
        plot.grab()
        assert drawn == {*busy, *(f"{percent}\u2009%" for percent in busy.values())}, height


def test_layout_is_told_when_what_stands_above_the_machine_is_hidden(machine, hold, qtbot) -> None:
    above = QLabel("the first steps")
    scroll = hold(PlotScroll(machine, above), 900, 700)
    settle(machine, qtbot)
    with qtbot.assertNotEmitted(machine.machine_changed):
        settle(machine, qtbot)
    above.hide()
    with qtbot.waitSignal(machine.machine_changed):
        settle(machine, qtbot)
    assert scroll.page.sizeHint().height() == machine.sizeHint().height()


def test_machine_that_was_looked_back_at_stays_and_has_times_of_day(machine, qtbot) -> None:
    settle(machine, qtbot)
    plot = machine.plots["utilisationPlot"]
    plot.canvas.view.setXRange(-100, -50, padding=0)
    plot.canvas.moved_by_hand.emit()
    settle(machine, qtbot)
    origin, reading = plot.axis(plot.run_series).origin, plot.reading_at(-70.2)
    then = time.strftime("%H:%M:%S", time.localtime(origin + reading.x))
    assert plot.canvas.bottom.tickStrings([reading.x], 1, 10) == [then] == [reading.rows[0].text]
    plot.invalidate()
    plot.redraw()
    assert plot.axis(plot.run_series).origin == origin, "what one looks at does not move away"
    assert machine.plots["memoryPlot"].canvas.bottom.kind == "wall"


def test_machine_without_gpus_has_strips_of_its_cpus_and_no_card_that_says_nothing(hold, qtbot) -> None:
    area = hold(PlotArea(), 900, 700)
    area.create_plots()
    series = present({"cpu:0": (70.0, None, None), "cpu:1": (30.0, None, None)}, until=time.time())
    area.show_series(None, series, COLOURS, LABELS, live_devices=True)
    settle(area, qtbot)
    assert seen(area) == ["utilisationPlot"]
    assert "temperaturePlot" not in area.plots, "it is not even made"
    assert beside(area.plots["utilisationPlot"]) == ["70\u2009%", "30\u2009%"]
    silent = present({"cpu:0": (70.0, None, None)}, until=time.time() - 60)
    area.show_series(None, silent, COLOURS, LABELS, live_devices=True)
    settle(area, qtbot)
    assert beside(area.plots["utilisationPlot"]) == ["–"], "its last reading is old"
    silent.add_reading("cpu:0", time.time(), 0.0, None)
    settle(area, qtbot)
    assert beside(area.plots["utilisationPlot"]) == ["0\u2009%"], "at once"
    area.show_series(readings({"cpu:0": [50.0] * 9}), series, COLOURS, LABELS, live_devices=False)
    settle(area, qtbot)
    assert seen(area) == ["lossPlot", "utilisationPlot", "memoryPlot"]
    assert all(area.plots[name].canvas.bottom.isVisible() for name in seen(area))
    assert area.plots["utilisationPlot"].form == "lines"


# -- temperature, power and clock, on request ------------------------------------------------------


@pytest.fixture
def area(hold) -> PlotArea:
    """All plots in their area, with a run on one GPU that was too hot from second 5 to 8."""
    made = hold(PlotArea())
    made.create_plots()
    series = RunSeries()
    series.fold(
        {"t": START + second, "kind": "sample", "device": "gpu-0", "utilisation_percent": 90.0,
         "memory_used_bytes": 2**30, "temperature_celsius": 91.0 if 5 <= second < 8 else 60.0, "power_watts": 400.0,
         "sm_clock_mhz": 1980.0, "slowdowns": ["too hot"] if 5 <= second < 8 else []}
        for second in range(12)
    )
    made.show_series(series, RunSeries(), {"gpu-0": "#00ff00"}, {"gpu-0": "GPU 0"}, live_devices=False)
    return made


def test_temperature_power_and_clock_are_created_when_they_are_first_shown(area) -> None:
    assert area.optional_plots == {"temperaturePlot": "Temperature", "powerPlot": "Power", "clockPlot": "Clock"}
    assert list(area.plots) == ["lossPlot", "utilisationPlot", "memoryPlot"], "none of them at first"
    area.set_plot_shown("clockPlot", True)
    area.set_plot_shown("temperaturePlot", True)
    assert area.widget(0).isAncestorOf(area.plots["lossPlot"])
    assert [area.widget(place).objectName() for place in range(1, area.count())] == [
        "utilisationPlot", "memoryPlot", "temperaturePlot", "clockPlot"
    ]
    assert area.plots["temperaturePlot"].reading_at(2).rows[1].text == "GPU 0 60 °C"
    assert area.plots["clockPlot"].reading_at(2).rows[1].text == "GPU 0 1\u2009980 MHz"
    clock = area.plots["clockPlot"]
    area.set_plot_shown("clockPlot", False)
    assert not area.is_plot_shown("clockPlot")
    area.set_plot_shown("clockPlot", True)
    assert area.plots["clockPlot"] is clock
    area.set_plot_shown("lossPlot", False)
    assert area.is_plot_shown("lossPlot"), "only the plots on request can be hidden"
    area.optional_menu.aboutToShow.emit()
    temperature, power, clock = area.optional_menu.actions()
    assert [each.text() for each in (temperature, power, clock)] == ["Temperature", "Power", "Clock"]
    assert [each.isChecked() for each in (temperature, power, clock)] == [True, False, True]
    power.trigger()
    assert area.is_plot_shown("powerPlot")
    area.plots["powerPlot"].findChild(QPushButton, "powerPlotHide").click()
    assert not area.is_plot_shown("powerPlot")


def test_plots_on_request_are_remembered_explained_and_empty_on_cpus(area) -> None:
    area.set_plot_shown("powerPlot", True)
    memory, power = area.plots["memoryPlot"], area.plots["powerPlot"]
    memory.canvas.view.setXRange(2, 4, padding=0)
    memory.canvas.moved_by_hand.emit()
    assert not power.follows
    kept = area.remember()
    area.restore({**kept, "shown": "garbage"})
    assert not area.is_plot_shown("powerPlot")
    area.restore(kept)
    assert area.is_plot_shown("powerPlot")
    assert not area.is_plot_shown("clockPlot")
    area.set_plot_shown("temperaturePlot", True)
    plot = area.plots["temperaturePlot"]
    plot.resize(700, 300)
    plot.redraw()
    marked = plot.lines()["gpu-0"].marked_path.boundingRect()
    assert (marked.left(), marked.right()) == (4, 9), "with the stretches to the readings before and after"
    assert plot.reading_at(6).rows[-1].text == "GPU 0 slowed down: too hot"
    assert plot.reading_at(2).rows[-1].text == "GPU 0 60 °C"
    series = readings({"cpu:0": [50.0] * 9})
    area.show_series(series, RunSeries(), COLOURS, LABELS, live_devices=False)
    area.set_plot_shown("clockPlot", True)
    assert area.plots["clockPlot"].empty.text() == "Only NVIDIA GPUs have these readings."


def test_plots_that_only_gpus_have_give_their_room_away_and_come_back(area) -> None:
    def shown() -> list[str]:
        return [name for name, plot in area.plots.items() if not plot.isHidden()]

    usual, gpus, run = ["lossPlot", "utilisationPlot", "memoryPlot"], readings({"gpu-0": [50.0] * 9}), RunSeries()
    run.fold([{"t": START, "kind": "sample", "device": "cpu:0", "utilisation_percent": 50.0, "memory_used_bytes": 1}])
    area.show_series(gpus, gpus, COLOURS, LABELS, live_devices=False, devices=["gpu-0", "cpu:0"])
    area.set_plot_shown("powerPlot", True)
    assert shown() == [*usual, "powerPlot"]
    area.show_series(run, gpus, COLOURS, LABELS, live_devices=False, devices=["node/cpu:0", "cpu:0"])
    area.plots["utilisationPlot"].redraw()
    assert (shown(), area.plots["utilisationPlot"].curves().keys()) == (usual, {"cpu:0"})
    assert (area.is_plot_shown("powerPlot"), area.remember()["shown"]) == (True, ["powerPlot"])
    area.restore(area.remember())
    assert shown() == usual
    area.set_plot_shown("clockPlot", True)  # what is asked for now says why it is empty
    assert shown() == [*usual, "clockPlot"]
    area.show_series(gpus, gpus, COLOURS, LABELS, live_devices=False, devices=["gpu-0", "cpu:0"])
    assert shown() == [*usual, "powerPlot", "clockPlot"]


def test_loss_is_in_sight_when_a_run_takes_the_place_of_the_machine(assemble, runs_root) -> None:
    write_run(runs_root, "20260101-000000-run", [values(1, 1, 2, loss=[2.0, 1.0])])
    panel = assemble("run")
    panel.window.resize(1100, 700)
    plots, bar = panel.window.panels.plots, panel.window.panels.scroll.verticalScrollBar()
    plots.plots["utilisationPlot"].setMinimumHeight(2000)
    panel.until(lambda: bar.maximum() > 0, "the plots to need more room than there is")
    bar.setValue(bar.maximum())
    panel.open_run()
    assert panel.run is not None
    assert bar.value() == 0


def test_plots_are_scrolled_where_there_is_no_room(qtbot, hold, area) -> None:
    scroll = hold(PlotScroll(area), 500, 420)
    assert scroll.verticalScrollBar().maximum() == 0, "the usual three fit"
    for name in area.optional_plots:
        area.set_plot_shown(name, True)
    clock = area.plots["clockPlot"]
    qtbot.waitUntil(lambda: scroll.verticalScrollBar().value() > 0)
    assert clock.height() >= clock.minimumHeight()
    bottom = clock.mapTo(scroll.viewport(), clock.rect().bottomLeft()).y()
    assert bottom <= scroll.viewport().height(), "the plot shown last is in sight"


@pytest.mark.slow
def test_plots_on_request_are_in_the_menu_view_and_stay_in_the_next_window(drive, nvml) -> None:
    nvml.write(gpus=1, gpu0={"power_mw": 250_000, "temperature": 61})

    def shown(window) -> list[str]:
        return [name for name in ("temperaturePlot", "powerPlot", "clockPlot") if name in seen(window.panels.plots)]

    panel = drive()
    panel.until(lambda: shown(panel.window) == ["temperaturePlot"], "the temperature, which is wanted at first")
    menu = panel.window.findChild(QMenu, "plotsMenu")
    assert menu.menuAction() in panel.window.panels.menu.view.actions()
    menu.aboutToShow.emit()
    for title in ("Temperature", "Power"):
        next(action for action in menu.actions() if action.text() == title).trigger()
    assert shown(panel.window) == ["powerPlot"]
    panel.window.close()
    again = drive()
    again.until(lambda: shown(again.window) == ["powerPlot"], "the choice of the last window")


def test_linked_plots_do_not_move_each_other_at_every_reading(qtbot: QtBot, area: PlotArea) -> None:
    """They are drawn together every few seconds. One that was drawn later than the other moved it again, and so on."""
    series = RunSeries()
    area.resize(800, 600)
    with qtbot.waitExposed(area):
        area.show()
    area.show_series(None, series, COLOURS, LABELS, live_devices=True)
    plots = [area.plots["utilisationPlot"], area.plots["memoryPlot"]]
    for plot in plots:
        plot.min_s = 0.0
    now = time.time()
    drawn: Counter[str] = Counter()

    def read(second: int) -> None:
        for device in COLOURS:
            series.add_reading(device, now + second, 50.0, 2.0**30, (None, None, None, None))
        area.redraw_in_turns()
        qtbot.waitUntil(lambda: not area._turns.busy)

    for second in (10, 20, 30):  # their sizes settle
        read(second)
    for plot in plots:
        name, draw = plot.objectName(), plot.draw_lines
        plot.draw_lines = lambda *given, name=name, draw=draw: (drawn.update([name]), draw(*given))
        plot.min_s = PATIENCE_S  # nothing is due by time
    plots[1].min_s = 0.0  # but this one, once
    read(40)
    plots[1].min_s = PATIENCE_S
    for second in range(50, 110, 10):
        read(second)
    assert drawn == {"memoryPlot": 1}, "the other is not even moved: the present stays where it is on the axis"
    assert plots[0].canvas.x_range == pytest.approx(plots[1].canvas.x_range)


# -- strips ----------------------------------------------------------------------------------------


pytestmark = pytest.mark.styled


def busy_run(devices: int, *, until: int = 100, measures: bool = True) -> RunSeries:
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
    series.fold(sorted(found[not measures :], key=lambda event: event["t"]))
    return series


def show(plot: Plot, series: RunSeries, devices: int) -> None:
    ids = [f"gpu-{number}" for number in range(devices)]
    plot.show_series(series, dict(zip(ids, DARK.devices, strict=False)), {each: each.upper() for each in ids})
    plot.redraw()


def test_more_than_four_devices_or_hours_are_drawn_as_strips(utilisation) -> None:
    show(utilisation, busy_run(4), 4)
    assert utilisation.form == "lines"
    show(utilisation, busy_run(5), 5)
    assert utilisation.form == "strips"
    assert utilisation.curves() == {}
    assert [label.text for label in utilisation.margin.left] == [f"GPU-{number}" for number in range(5)]
    show(utilisation, busy_run(2), 2)
    assert utilisation.form == "lines"
    assert set(utilisation.curves()) == {"gpu-0", "gpu-1"}
    assert len(utilisation.strips.percent) == 0
    series = RunSeries()
    for at in (0.0, 10.0, 3700.0):
        series.add_reading("gpu-0", START + at, 50.0, None)
    show(utilisation, series, 1)
    assert utilisation.form == "strips"


def test_mean_counts_the_training_only_beside_a_strip_and_in_the_head(utilisation) -> None:
    show(utilisation, busy_run(5), 5)
    assert beside(utilisation) == ["90\u2009%"] * 5
    assert "mean while training" in utilisation._values.text()
    assert utilisation.canvas.accessibleDescription().startswith("GPU-0 90\u2009%, GPU-1 90\u2009%")
    untrained = RunSeries()
    for number in range(5):
        untrained.add_reading(f"gpu-{number}", START, 3.0, None)
    show(utilisation, untrained, 5)
    assert beside(utilisation) == ["\u2013"] * 5, "it has not trained yet"
    for count in (5, 2):  # beside strips, and above lines
        show(utilisation, busy_run(count, measures=False), count)
        assert "mean" in utilisation._values.text()
        assert "training" not in utilisation._values.text(), "it is not known when a script without a metric trained"
        assert "\u2013" not in utilisation._values.text()
    series = busy_run(2)
    show(utilisation, series, 2)
    assert (utilisation.form, series.utilisation["gpu-0"].last) == ("lines", 0.0)
    assert "mean while training" in utilisation._values.text()
    assert "90\u2009%" in utilisation._values.text()
    series.fold([{"t": START + 101, "kind": "state", "state": "starting"}])
    utilisation.redraw()
    assert "0\u2009%" in utilisation._values.text(), "it was resumed: the newest readings"
    assert "mean" not in utilisation._values.text()


def test_missing_reading_is_a_gap_in_a_strip(utilisation) -> None:
    show(utilisation, busy_run(5), 5)
    image = utilisation.canvas.grab().toImage()
    view = utilisation.canvas.view
    row = 4.5

    def colour_at(second: float) -> str:
        point = utilisation.canvas.mapFromScene(view.mapViewToScene(pg.Point(second, row)))
        return image.pixelColor(point).name()

    assert colour_at(10) == DARK.idle
    assert colour_at(47) == DARK.panel, "there was no reading"
    assert colour_at(60) not in {DARK.idle, DARK.panel}


def test_lines_are_one_click_away_and_remembered(hold) -> None:
    area = hold(PlotArea())
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


def test_slowdown_is_marked_on_its_strip(utilisation) -> None:
    series = busy_run(5)
    hot = {"kind": "sample", "device": "gpu-3", "utilisation_percent": 90.0, "slowdowns": ["too hot"]}
    series.fold([{"t": START + 100, **hot}, {"t": START + 105, **hot}])
    show(utilisation, series, 5)
    assert utilisation.strips.marked.any(axis=1).tolist() == [False, False, False, True, False]
    seen = len(np.flatnonzero(utilisation.strips.marked[3]))
    assert seen == pytest.approx(6 * utilisation.canvas.pixels / 106, rel=0.6)
    place = utilisation.canvas.view.mapViewToScene(pg.Point(102, 1.5))
    image = utilisation.canvas.grab().toImage()
    below = [image.pixelColor(round(place.x()), round(place.y()) + down).name() for down in range(20)]
    assert DARK.bad in below
    spans = [Slowdown(since=2, until=3.5, words=("too hot",)), Slowdown(since=8, until=8, words=("too hot",))]
    np.testing.assert_array_equal(slowed_at(spans, np.array([1.0, 2, 3.5, 4, 8, 9])), [0, 1, 1, 0, 1, 0])
    np.testing.assert_array_equal(np.flatnonzero(slowed_at(spans, np.arange(10) + 0.4, 0.5)), [2, 3, 8])
    assert not slowed_at(spans, np.array([-5.0, 20.0]), 1.0).any(), "before the first and after the last"
    assert not slowed_at([], np.array([2.0])).any()
