"""The tabs of the details panel: all fit into the heading, and each kind of run has the tab that the user chose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow

from core.runs.outputs import OutputFile, Outputs
from gui.base.theme import DARK, stylesheet
from gui.window.layout import Dock
from gui.window.panels import (
    ERROR_TAB,
    EVENTS_TAB,
    LOG_TAB,
    MEMORY_TAB,
    OUTPUTS_TAB,
    PROCESSES_TAB,
    DetailTabs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.styled


@pytest.fixture
def details(qtbot) -> Iterator[DetailTabs]:
    """The details panel in a dock, as in the main window."""
    detail_tabs, window = DetailTabs(), QMainWindow()
    qtbot.addWidget(window)
    dock = Dock(window, "logDock", "Log", detail_tabs, heading=detail_tabs.tabs, beside=detail_tabs.controls)
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
    window.resize(900, 400)
    with qtbot.waitExposed(window):
        window.show()
    yield detail_tabs
    window.close()  # keep the window referenced until here: it owns the panel


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


def test_removing_error_tab_selects_first_tab_only_if_error_was_open(details):
    details.show_error("It failed.")
    details.tabs.setCurrentIndex(ERROR_TAB)
    details.show_error("")
    assert (details.currentIndex(), details.tabs.currentIndex()) == (EVENTS_TAB, EVENTS_TAB)
    details.show_error("It failed.")
    details.raise_processes()
    details.show_error("")
    assert details.currentIndex() == PROCESSES_TAB


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
    details.restore({"recipe": "log", "script": "nowhere", "other": 3})
    details.show_kind(is_script=False)
    assert details.currentIndex() == LOG_TAB
    details.restore(kept)
    assert details.remember() == kept == {"recipe": "memory", "script": "log", "epochs": True}


def _click(qtbot, details: DetailTabs, tab: int) -> None:
    where = details.tabs.tabRect(tab).center()
    qtbot.mouseClick(details.tabs, Qt.MouseButton.LeftButton, pos=where)
