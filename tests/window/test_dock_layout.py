"""The shares of the docks, the tabs of the details panel, and the size of what is clicked."""

from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QComboBox, QDockWidget, QLabel, QListView, QMainWindow, QWidget

from core.runs.outputs import OutputFile, Outputs
from gui.base.theme import DARK, stylesheet
from gui.window.layout import LOG_SHARE, Dock
from gui.window.panels import ERROR_TAB, EVENTS_TAB, LOG_TAB, MEMORY_TAB, OUTPUTS_TAB, PROCESSES_TAB, DetailTabs
from tests.support.recorded import recorded
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
    resized: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panel.window, "resizeDocks", lambda *sizes: resized.append(sizes))
        panel.window.panels.devices.resized.emit()
    assert not resized, "new readings move no border that the mouse holds"
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
    runs.raise_()
    panel.until(lambda: not panel.runs.visibleRegion().isEmpty(), "the runs")
    panel.window.resize(1480, 900)
    panel.until(lambda: runs.x() > devices.geometry().right(), "the runs at the right")
    panel.until(lambda: start.width() == wide, "the texts")
    assert panel.window.dock_layout.save().isEmpty()


def test_log_takes_what_the_plots_of_the_machine_leave_and_its_share_beside_a_run(drive, nvml, runs_root) -> None:
    nvml.write(gpus=8)
    recorded(runs_root)
    panel = drive()
    panel.resize(1480, 900)
    log, panels = panel.window.findChild(QDockWidget, "logDock"), panel.window.panels
    share = round(LOG_SHARE * 900)
    bar = panels.scroll.verticalScrollBar()
    panel.until(lambda: log.height() > share + 50 and bar.maximum() == 0, "the room for the processes")
    assert panels.sums.isVisible()
    assert panels.details.processes.isVisible()
    panel.open_run()
    panel.until(lambda: abs(log.height() - share) < 5, "the share")
    assert not panels.sums.isVisible()
    assert panel.plot("lossPlot").isVisible()
    panel.window.controllers.run.show_machine()
    panel.until(lambda: log.height() > share + 50 and bar.maximum() == 0, "the room for the processes again")


# -- boxes and targets -----------------------------------------------------------------------------


MIN_PX = 24
"""Least side of a target by WCAG 2.2."""


def test_widgets_have_names_of_their_own_and_targets_and_lists_are_large_enough(drive) -> None:
    """Tests from outside find widgets by these names. Each message and each plot has one button of its own."""
    panel = drive()
    panel.window.panels.details.show_error("An error.")
    names = [each.objectName() for each in panel.window.findChildren(QWidget) if type(each).__module__ != "builtins"]
    of_each = {"nextMessageButton", "showAllButton", "ScrollLeftButton", "ScrollRightButton"}  # the last two are Qt's
    counts = Counter(name for name in names if name and not name.startswith("qt_") and name not in of_each)
    assert {name: count for name, count in counts.items() if count > 1} == {}
    targets = [*panel.window.findChildren(QAbstractButton), *panel.window.findChildren(QComboBox)]
    sizes = {each.objectName() or each.text(): each.size() for each in targets if each.isVisible()}
    assert len(sizes) > 10
    assert {name: size.toTuple() for name, size in sizes.items() if min(size.toTuple()) < MIN_PX} == {}
    boxes = [box for box in panel.window.findChildren(QComboBox) if box.count()]
    assert {"frameworkBox", "recipeBox", "strategyBox", "xAxisBox"} <= {box.objectName() for box in boxes}
    for box in boxes:
        box.showPopup()
        view = box.view()
        assert isinstance(view, QListView)
        panel.until(view.isVisible, f"the list of {box.objectName()}")
        rows = [view.visualRect(box.model().index(row, 0)) for row in range(box.count())]
        assert rows[-1].bottom() <= view.viewport().height(), box.objectName()
        assert rows[0].top() >= 0, box.objectName()
        assert view.sizeHintForColumn(0) <= view.viewport().width(), box.objectName()
        assert not view.horizontalScrollBar().isVisible(), box.objectName()
        box.hidePopup()


# -- the tabs of the details panel -----------------------------------------------------------------


@pytest.fixture
def details(hold) -> DetailTabs:
    """The details panel in a dock, as in the main window."""
    detail_tabs, window = DetailTabs(), QMainWindow()
    dock = Dock(window, "logDock", "Log", detail_tabs, heading=detail_tabs.tabs, beside=detail_tabs.controls)
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
    hold(window, 900, 400)
    return detail_tabs


def test_removing_error_tab_selects_first_tab_only_if_error_was_open(details):
    details.show_error("It failed.")
    details.tabs.setCurrentIndex(ERROR_TAB)
    details.show_error("")
    assert (details.currentIndex(), details.tabs.currentIndex()) == (EVENTS_TAB, EVENTS_TAB)
    details.show_error("It failed.")
    details.raise_processes()
    details.show_error("")
    assert details.currentIndex() == PROCESSES_TAB


def test_tab_bar_grows_to_fit_error_tab(qtbot, details):
    narrow = details.tabs.width()
    details.show_error("It failed.")
    qtbot.waitUntil(lambda: details.tabs.width() > narrow)
    with_error = details.tabs.width()
    file = OutputFile(path=Path("a.png"), name="a.png", size_bytes=1, modified=0.0)
    details.show_outputs(Outputs(files=(file,)))
    qtbot.waitUntil(lambda: details.tabs.width() > with_error)
    for number in (PROCESSES_TAB, OUTPUTS_TAB, ERROR_TAB, LOG_TAB):
        details.tabs.setCurrentIndex(number)
        for tab in filter(details.tabs.isTabVisible, range(details.tabs.count())):
            assert details.tabs.rect().contains(details.tabs.tabRect(tab))
    details.show_error("")
    details.show_outputs(Outputs())
    qtbot.waitUntil(lambda: details.tabs.width() == narrow)


def test_heading_takes_no_more_than_there_is_and_controls_are_whole(qtbot, details):
    details.tabs.setCurrentIndex(LOG_TAB)
    details.show_error("It failed.")
    tabs, controls, window = details.tabs, details.controls, details.window()
    window.setStyleSheet(stylesheet(DARK))
    for width in (900, 520, 430):
        window.resize(width, 400)
        qtbot.waitUntil(lambda width=width: window.width() == width)
        qtbot.waitUntil(lambda: tabs.geometry().right() < controls.geometry().left())
        assert controls.width() >= controls.sizeHint().width()
        shown = [tabs.tabRect(tab) for tab in filter(tabs.isTabVisible, range(tabs.count()))]
        assert min(rect.width() for rect in shown) > 20
        assert shown[-1].right() < tabs.width() or width < 500, "then they are scrolled"
    assert tabs.tabToolTip(PROCESSES_TAB) == "Processes"


def test_recipes_begin_with_events_and_scripts_with_log_unless_user_chose_another_tab(qtbot, details):
    assert details.tabs.tabText(0) == "Events"
    assert details.events.isVisible()
    assert not details.log.controls.isVisible()
    details.show_kind(is_script=True)
    assert details.currentIndex() == LOG_TAB
    assert details.log.controls.isVisible()
    details.show_kind(is_script=False)
    assert details.currentIndex() == EVENTS_TAB
    _click(qtbot, details, MEMORY_TAB)
    details.show_kind(is_script=True)
    details.raise_processes()  # by the window, not by the user
    details.show_kind(is_script=False)
    assert details.currentIndex() == MEMORY_TAB
    details.show_kind(is_script=True)
    assert details.currentIndex() == LOG_TAB
    kept = details.remember()
    details.restore({"recipe": "log", "script": "nowhere", "machine": "events", "other": 3})
    details.show_kind(is_script=None)
    shown = [details.tabs.tabText(tab) for tab in range(details.tabs.count()) if details.tabs.isTabVisible(tab)]
    assert (shown, details.currentIndex()) == (["Memory", "Processes"], PROCESSES_TAB), "without a run"
    details.show_kind(is_script=False)
    assert details.tabs.isTabVisible(EVENTS_TAB)
    assert details.currentIndex() == LOG_TAB
    details.restore(kept)
    assert details.remember() == kept == {"recipe": "memory", "script": "log", "machine": "processes", "epochs": True}


def _click(qtbot, details: DetailTabs, tab: int) -> None:
    where = details.tabs.tabRect(tab).center()
    qtbot.mouseClick(details.tabs, Qt.MouseButton.LeftButton, pos=where)
