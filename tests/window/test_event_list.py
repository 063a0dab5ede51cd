"""The tab Events: rows as they come, following the newest, copying, and many of them."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from core.diagnosis.timeline import MAX_ENTRIES, Timeline
from gui.base import theme as themes
from gui.base.theme import DARK, LIGHT
from gui.features.run.events import SLACK_ROWS, EventList
from tests.window.driving import show_theme

pytestmark = pytest.mark.styled


@pytest.fixture
def events(hold, qapp) -> EventList:
    themes.apply(qapp, DARK)
    return hold(EventList(), 500, 120)


@pytest.fixture
def show(events) -> Callable[[list[dict[str, Any]]], None]:
    """Return a function that shows further events of one run."""
    timeline = Timeline(None, "PyTorch")

    def fold(found: list[dict[str, Any]]) -> None:
        timeline.fold(found)
        events.show_timeline(timeline)

    return fold


def notices(numbers: Iterable[int], at: float | None = None) -> list[dict[str, Any]]:
    now = time.time() if at is None else at
    return [{"t": now, "kind": "notice", "text": f"Notice {number}."} for number in numbers]


def shown(events: EventList) -> list[str]:
    model = events.model()
    return [str(model.index(row, 0).data()) for row in range(model.rowCount())]


def test_rows_have_time_text_sign_and_a_heading_for_another_day(events, show):
    year, month, number = time.localtime()[:3]
    day_before, today = (time.mktime((year, month, each, 18, 3, 4, 0, 0, -1)) for each in (number - 1, number))
    show([{"t": day_before, "kind": "checkpoint", "step": 5, "name": "a", "bytes": 2048}, *notices([1], today)])
    yesterday, checkpoint, day, notice = shown(events)
    assert checkpoint == "18:03:04  Checkpoint written: step 5, 2 kB."
    assert yesterday == time.strftime("%d %B %Y", time.localtime(day_before)).lstrip("0")
    assert day == time.strftime("%d %B %Y", time.localtime(today)).lstrip("0")
    assert notice == "18:03:04  Notice 1."
    spoken = events.model().index(3, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "18:03:04, Warning: Notice 1."
    for theme in (LIGHT, DARK):
        show_theme(theme)
        colours = {
            image.pixelColor(x, y).name()
            for image in [events.grab().toImage()]
            for x in range(200)
            for y in range(image.height())
        }
        assert theme.warn in colours


def test_newest_row_is_followed_until_user_scrolls_up(qtbot, events, show):
    bar = events.verticalScrollBar()
    show(notices(range(50)))
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    show(notices(range(50, 60)))
    qtbot.waitUntil(lambda: events.model().rowCount() == 60 and bar.value() == bar.maximum())
    qtbot.keyClick(events, Qt.Key.Key_Home)
    assert bar.value() == 0
    show(notices(range(60, 70)))
    events.doItemsLayout()
    assert bar.value() == 0
    events.show_timeline(None)
    assert shown(events) == []


def epochs(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Return the events of epochs of one step."""
    plan = {"t": 1.0, "kind": "plan", "epochs": 10**6, "steps_per_epoch": 1, "samples_per_epoch": 1}
    return [
        plan, *({"t": time.time(), "kind": "metrics", "first": step, "values": {"loss": [0.5]}} for step in numbers)
    ]


def test_epochs_are_appended_and_the_oldest_removed_but_not_how_the_run_began(events, show):
    show(notices([0]))
    show(epochs(range(1, 1002)))  # the last one waits for its validation
    show([{"t": time.time(), "kind": "checkpoint", "step": 1000, "name": "b"}])
    resets, inserted = [], []
    events.model().modelReset.connect(lambda: resets.append(True))
    events.model().rowsInserted.connect(lambda _, first, last: inserted.append(last - first + 1))
    for first in range(1002, MAX_ENTRIES + 2 * SLACK_ROWS + 1002, 100):
        show(epochs(range(first, first + 100)))
    assert resets == []
    assert max(inserted) == 100
    rows = shown(events)
    assert MAX_ENTRIES <= len(rows) <= MAX_ENTRIES + SLACK_ROWS + 2
    assert rows[0].endswith("Notice 0.")
    assert rows[1].endswith("Checkpoint written: step 1\u2009000.")
    assert rows[-1].endswith(f"Epoch {MAX_ENTRIES + 2 * SLACK_ROWS + 1000}: loss 0.5")


def test_epochs_can_be_hidden_and_selected_rows_are_copied_with_their_dates(hold, events, show, qtbot):
    show([*notices([0]), *epochs(range(1, 60)), *notices([1])])
    assert len(shown(events)) == 60
    hold(events.controls)
    events.epochs_box.click()
    assert [row.partition("  ")[2] for row in shown(events)] == ["Notice 0.", "Notice 1."]
    show([*epochs(range(60, 70)), *notices([2])])
    assert len(shown(events)) == 3
    events.epochs_box.click()
    assert len(shown(events)) == 71
    at = time.mktime((2026, 11, 23, 18, 3, 4, 0, 0, -1))
    show(notices([1, 2], at))
    qtbot.keyClick(events, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(events, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().text().splitlines()
    assert copied[-2:] == ["2026-11-23 18:03:04  Notice 1.", "2026-11-23 18:03:04  Notice 2."]
