"""Messages over the plots: one at a time, without moving anything."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication, QPoint, QRect, Qt
from PySide6.QtWidgets import QDockWidget, QPushButton, QWidget

from gui.widgets.messages import MessageStack, MessageStrip
from gui.window.layout import MIN_RUNS_PX, MIN_SIDE_PX, RUNS_SHARE, SIDE_SHARE

pytestmark = pytest.mark.styled


@pytest.fixture
def stack(qtbot):
    """A stack of three closed strips; `stack.strips` are they."""
    strips = [MessageStrip(name) for name in ("one", "two", "three")]
    made = MessageStack(strips)
    made.strips = strips
    qtbot.addWidget(made)
    made.resize(600, 60)
    return made


def seen(stack) -> list[str]:
    return [strip.text for strip in stack.strips if strip.isVisible()]


def place(stack) -> str:
    (strip,) = (strip for strip in stack.strips if strip.isVisible())
    button = strip.findChild(QPushButton, "nextMessageButton")
    return button.text() if button.isVisible() else ""


def test_messages_are_shown_one_at_a_time_with_their_count(stack, qtbot) -> None:
    one, two, three = stack.strips
    assert not stack.isVisible()
    one.show_message("first")
    assert (seen(stack), place(stack)) == (["first"], "")
    two.show_message("second")
    three.show_message("third", "bad")
    assert seen(stack) == ["third"]
    assert place(stack).startswith("1 of 3")
    qtbot.mouseClick(three.findChild(QPushButton, "nextMessageButton"), Qt.MouseButton.LeftButton)
    assert seen(stack) == ["second"]
    assert place(stack).startswith("2 of 3")
    two.show_message("second, changed", is_new=False)
    assert seen(stack) == ["second, changed"]
    one.show_message("first, changed", is_new=False)
    assert seen(stack) == ["second, changed"], "an update does not come to the front"
    three.show_message("")
    assert place(stack).startswith("1 of 2")


def test_escape_dismisses_the_shown_message(stack, qtbot) -> None:
    one, two, _ = stack.strips
    with qtbot.waitActive(stack):
        one.show_message("first")
        two.show_message("second")
        stack.activateWindow()
    two.setFocus()
    qtbot.keyClick(stack.focusWidget(), Qt.Key.Key_Escape)
    assert seen(stack) == ["first"]
    assert one.isAncestorOf(stack.focusWidget())
    qtbot.keyClick(stack.focusWidget(), Qt.Key.Key_Escape)
    assert not stack.isVisible()
    one.show_message("first, changed", is_new=False)
    assert not stack.isVisible(), "a dismissed message stays hidden"
    one.show_message("another")
    assert seen(stack) == ["another"]


def test_message_lies_below_the_plots_and_moves_nothing_else(drive) -> None:
    panel = drive()
    panel.resize(1300, 850)
    devices, runs = (panel.window.findChild(QDockWidget, name) for name in ("devicesDock", "runsDock"))
    shares = (max(round(SIDE_SHARE * 1300), MIN_SIDE_PX), max(round(RUNS_SHARE * 1300), MIN_RUNS_PX))
    panel.until(lambda: (devices.width(), runs.width()) == shares, "the docks to take their shares")
    panels = panel.window.panels
    ground = panel.window.centralWidget()
    parts = [panels.header, ground, *panel.window.findChildren(QDockWidget)]
    before = [part.geometry() for part in parts]
    panels.message.show_message("Something happened. " * 8, "bad")
    seen = ground.viewport()

    def place_of(part: QWidget) -> QRect:
        return QRect(part.mapTo(panel.window, QPoint(0, 0)), part.size())

    panel.until(
        lambda: panels.message.isVisible() and not place_of(seen).intersects(place_of(panels.messages)),
        "a message that covers no plot",
    )
    QCoreApplication.sendPostedEvents()  # what else is to be laid out
    assert [part.geometry() for part in parts] == before
    assert place_of(ground).contains(place_of(panels.messages))
    assert not place_of(seen).intersects(place_of(panels.messages)), "it still covers no plot"
    assert panels.plots.height() <= seen.height(), "the plots share the rest"
    panels.message.dismiss()
    panel.until(lambda: seen.height() == ground.height(), "all room for the plots")
