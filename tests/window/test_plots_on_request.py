"""Temperature, power and clock: plots that are created when they are first shown."""

from __future__ import annotations

from collections import Counter

import pytest
from PySide6.QtWidgets import QMenu, QPushButton
from pytestqt.qtbot import QtBot

from core.series.run_series import RunSeries
from gui.plots.area import PlotArea, PlotScroll
from tests.support.waiting import PATIENCE_S
from tests.window.plotted import COLOURS, LABELS, START, readings


@pytest.fixture
def area(qtbot) -> PlotArea:
    """All plots in their area, with a run on one GPU that was too hot from second 5 to 8."""
    made = PlotArea()
    qtbot.addWidget(made)
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
    assert [area.widget(place).objectName() for place in range(area.count())] == [
        "lossPlot", "utilisationPlot", "memoryPlot", "temperaturePlot", "clockPlot"
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


def test_plots_on_request_follow_the_others_and_are_remembered(area) -> None:
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


def test_slowdown_is_marked_below_the_line_and_explained(area) -> None:
    area.set_plot_shown("temperaturePlot", True)
    plot = area.plots["temperaturePlot"]
    plot.resize(700, 300)
    plot.redraw()
    marked = plot.lines()["gpu-0"].marked_path.boundingRect()
    assert (marked.left(), marked.right()) == (4, 9), "with the stretches to the readings before and after"
    assert plot.reading_at(6).rows[-1].text == "GPU 0 slowed down: too hot"
    assert plot.reading_at(2).rows[-1].text == "GPU 0 60 °C"


def test_plots_on_request_say_that_cpu_devices_have_no_such_readings(area) -> None:
    series = readings({"cpu:0": [50.0] * 9})
    area.show_series(series, RunSeries(), COLOURS, LABELS, live_devices=False)
    area.set_plot_shown("powerPlot", True)
    assert area.plots["powerPlot"].empty.text() == "Only NVIDIA GPUs have these readings."


def test_plots_are_scrolled_where_there_is_no_room(qtbot, area) -> None:
    scroll = PlotScroll(area)
    qtbot.addWidget(scroll)
    scroll.resize(500, 420)
    with qtbot.waitExposed(scroll):
        scroll.show()
    assert scroll.verticalScrollBar().maximum() == 0, "the usual three fit"
    for name in area.optional_plots:
        area.set_plot_shown(name, True)
    clock = area.plots["clockPlot"]
    qtbot.waitUntil(lambda: scroll.verticalScrollBar().value() > 0)
    assert clock.height() >= clock.minimumHeight()
    bottom = clock.mapTo(scroll.viewport(), clock.rect().bottomLeft()).y()
    assert bottom <= scroll.viewport().height(), "the plot shown last is in sight"


@pytest.mark.slow
def test_plots_on_request_are_in_the_menu_view_and_stay_in_the_next_window(drive, runs_root) -> None:
    panel = drive()
    panel.until(lambda: panel.window.opened, "the plots")
    menu = panel.window.findChild(QMenu, "plotsMenu")
    assert menu.menuAction() in panel.window.panels.menu.view.actions()
    menu.aboutToShow.emit()
    next(action for action in menu.actions() if action.text() == "Temperature").trigger()
    assert panel.plot("temperaturePlot").isVisible()
    panel.window.close()
    again = drive()
    again.until(lambda: again.window.opened, "the plots")
    assert again.plot("temperaturePlot").isVisible()
    assert "clockPlot" not in again.window.panels.plots.plots


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
    drawn: Counter[str] = Counter()

    def read(second: int) -> None:
        for device in COLOURS:
            series.add_reading(device, START + second, 50.0, 2.0**30, (None, None, None, None))
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
    assert drawn == {"utilisationPlot": 1, "memoryPlot": 1}
    assert plots[0].canvas.x_range == plots[1].canvas.x_range
