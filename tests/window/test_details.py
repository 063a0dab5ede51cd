"""The pages beside the log: all tabs are to be seen, and what is turned to when one of them goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow

from gui.panels.details import ERROR_TAB, LOG_TAB, PROCESSES_TAB, DetailTabs
from gui.style.theme import DARK
from gui.widgets.dock import Dock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def details(qtbot) -> Iterator[DetailTabs]:
    """In the card of a window, as it is used."""
    made, window = DetailTabs(DARK), QMainWindow()
    qtbot.addWidget(window)
    dock = Dock("logDock", "Log", made, DARK, heading=made.tabs)
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
    window.resize(900, 400)
    with qtbot.waitExposed(window):
        window.show()
    yield made
    window.close()  # until here it is not to be forgotten: the page is its own


def test_the_heading_has_room_for_the_tab_of_an_error(qtbot, details):
    narrow = details.tabs.width()
    details.show_error("It failed.")
    qtbot.waitUntil(lambda: details.tabs.width() > narrow)
    for number in (PROCESSES_TAB, ERROR_TAB, LOG_TAB):
        details.tabs.setCurrentIndex(number)
        for tab in range(details.tabs.count()):
            assert details.tabs.rect().contains(details.tabs.tabRect(tab))
    details.show_error("")
    qtbot.waitUntil(lambda: details.tabs.width() == narrow)


def test_after_an_error_the_log_is_turned_to_and_no_other_page_is_left(details):
    details.show_error("It failed.")
    details.raise_error()
    details.show_error("")
    assert (details.currentIndex(), details.tabs.currentIndex()) == (LOG_TAB, LOG_TAB)
    details.show_error("It failed.")
    details.raise_processes()
    details.show_error("")
    assert details.currentIndex() == PROCESSES_TAB
