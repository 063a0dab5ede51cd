"""The shares of the docks."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QDockWidget, QLabel

from tests.window.clipping import clipped

pytestmark = pytest.mark.styled


def widths(panel) -> list[int]:
    return [panel.window.findChild(QDockWidget, name).width() for name in ("devicesDock", "runsDock")]


def test_click_on_label_leaves_shares_and_a_moved_border_is_kept(drive, qtbot) -> None:
    panel = drive()
    panel.resize(1300, 900)
    before = widths(panel)
    qtbot.mouseClick(panel.window.findChild(QLabel, "stateLabel"), Qt.MouseButton.LeftButton)
    panel.window.resize(2400, 900)
    panel.until(lambda: widths(panel) > [round(1.5 * width) for width in before], "wider docks")
    assert panel.window.dock_layout.save().isEmpty()
    runs = panel.window.findChild(QDockWidget, "runsDock")
    border = QPoint(runs.x() - 3, runs.y() + 200)
    assert panel.window.childAt(border) is None
    width = runs.width()
    qtbot.mousePress(panel.window, Qt.MouseButton.LeftButton, pos=border)
    qtbot.mouseMove(panel.window, border - QPoint(90, 0))
    panel.until(lambda: runs.width() > width + 60, "the moved border")
    qtbot.mouseRelease(panel.window, Qt.MouseButton.LeftButton, pos=border - QPoint(90, 0))
    panel.until(lambda: not panel.window.dock_layout.save().isEmpty(), "the layout to be kept")
    moved = runs.width()
    panel.window.resize(2700, 900)
    panel.until(lambda: panel.window.width() == 2700)
    assert abs(runs.width() - moved) <= 2


def test_narrow_window_clips_nothing_and_has_its_runs_behind_a_tab_and_whole_devices(drive, nvml) -> None:
    nvml.write(gpus=8)
    panel = drive()
    panel.until(lambda: len(panel.devices) > 8, "the GPUs")
    devices, runs = (panel.window.findChild(QDockWidget, name) for name in ("devicesDock", "runsDock"))
    start = panel.start_button
    panel.resize(1480, 900)
    panel.until(lambda: start.width() > start.height() * 2, "the texts")
    wide = start.width()
    title = next(each for each in devices.findChildren(QLabel) if each.text() == "DEVICES")
    assert title.isVisible()
    panel.window.resize(900, 600)
    panel.until(lambda: panel.window.tabifiedDockWidgets(devices) == [runs], "the tab")
    panel.until(lambda: not title.isVisible(), "no title below the tab that has it")
    panel.until(lambda: start.width() < 0.7 * wide, "icons")
    panel.until(lambda: not clipped(panel.window), "all text to be whole")
    assert (start.text(), bool(start.toolTip())) == ("Start", True), "its name is read and its tooltip says it"
    header = panel.window.panels.header
    panel.until(lambda: header.minimumSizeHint().width() <= header.width() <= 900)
    assert devices.isVisible()
    height = panel.window.panels.devices.height
    panel.until(lambda: height() - panel.table.height() < 5, "no room below the devices")
    panel.until(lambda: panel.plot("lossPlot").height() > panel.plot("memoryPlot").height(), "the loss is the highest")
    runs.raise_()
    panel.until(lambda: not panel.runs.visibleRegion().isEmpty(), "the runs")
    panel.window.resize(1480, 900)
    panel.until(lambda: runs.x() > devices.geometry().right(), "the runs at the right")
    panel.until(lambda: start.width() == wide, "the texts")
    assert panel.window.dock_layout.save().isEmpty()
