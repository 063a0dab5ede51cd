"""The tab Events: rows as they come, following the newest, copying, and many of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from core.runs.timeline import MAX_ENTRIES, Timeline
from gui.panels.event_list import SLACK_ROWS, EventList
from gui.style import theme as themes
from gui.style.theme import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterable


@pytest.fixture
def events(qtbot, qapp) -> EventList:
    themes.apply(qapp, DARK)
    event_list = EventList(DARK)
    qtbot.addWidget(event_list)
    event_list.resize(500, 120)
    with qtbot.waitExposed(event_list):
        event_list.show()
    return event_list


def notices(numbers: Iterable[int], at: float | None = None) -> list[dict[str, Any]]:
    now = time.time() if at is None else at
    return [{"t": now, "kind": "notice", "text": f"Notice {number}."} for number in numbers]


def shown(events: EventList) -> list[str]:
    model = events.model()
    return [str(model.index(row, 0).data()) for row in range(model.rowCount())]


def test_rows_have_time_text_sign_and_a_heading_for_another_day(events):
    timeline = Timeline(None, "PyTorch")
    today = time.mktime((*time.localtime()[:3], 18, 3, 4, 0, 0, -1))
    timeline.fold([{"t": today - 86_400, "kind": "checkpoint", "step": 5, "bytes": 2048}, *notices([1], today)])
    events.show_timeline(timeline)
    yesterday, checkpoint, day, notice = shown(events)
    assert checkpoint == "18:03:04  Checkpoint written: step 5, 2 kB."
    assert yesterday == time.strftime("%d %B %Y", time.localtime(today - 86_400)).lstrip("0")
    assert day == time.strftime("%d %B %Y", time.localtime(today)).lstrip("0")
    assert notice == "18:03:04  Notice 1."
    spoken = events.model().index(3, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "18:03:04, Warning: Notice 1."
    for theme in (LIGHT, DARK):
        events.set_theme(theme)
        colours = {
            image.pixelColor(x, y).name()
            for image in [events.grab().toImage()]
            for x in range(200)
            for y in range(image.height())
        }
        assert theme.warn in colours


def test_newest_row_is_followed_until_user_scrolls_up(qtbot, events):
    timeline, bar = Timeline(None, "PyTorch"), events.verticalScrollBar()
    timeline.fold(notices(range(50)))
    events.show_timeline(timeline)
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum(), timeout=20_000)
    timeline.fold(notices(range(50, 60)))
    events.show_timeline(timeline)
    qtbot.waitUntil(lambda: events.model().rowCount() == 60 and bar.value() == bar.maximum(), timeout=20_000)
    qtbot.keyClick(events, Qt.Key.Key_Home)
    assert bar.value() == 0
    timeline.fold(notices(range(60, 70)))
    events.show_timeline(timeline)
    events.doItemsLayout()
    assert bar.value() == 0
    events.show_timeline(None)
    assert shown(events) == []


def test_selected_rows_are_copied_with_their_dates(qtbot, events):
    timeline = Timeline(None, "PyTorch")
    at = time.mktime((2026, 11, 23, 18, 3, 4, 0, 0, -1))
    timeline.fold(notices([1, 2], at))
    events.show_timeline(timeline)
    qtbot.keyClick(events, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(events, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().text().splitlines()
    assert copied[-2:] == ["2026-11-23 18:03:04  Notice 1.", "2026-11-23 18:03:04  Notice 2."]


def test_new_entries_are_appended_and_the_oldest_removed(events):
    timeline = Timeline(None, "PyTorch")
    timeline.fold(notices(range(MAX_ENTRIES)))
    events.show_timeline(timeline)
    resets, inserted = [], []
    events.model().modelReset.connect(lambda: resets.append(True))
    events.model().rowsInserted.connect(lambda _, first, last: inserted.append(last - first + 1))
    for first in range(MAX_ENTRIES, MAX_ENTRIES + 2 * SLACK_ROWS, 100):
        timeline.fold(notices(range(first, first + 100)))
        events.show_timeline(timeline)
    assert (resets, set(inserted)) == ([], {100})
    assert MAX_ENTRIES <= events.model().rowCount() <= MAX_ENTRIES + SLACK_ROWS
    assert shown(events)[-1].endswith(f"Notice {MAX_ENTRIES + 2 * SLACK_ROWS - 1}.")
