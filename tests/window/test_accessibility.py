"""What a screen reader is told: names, descriptions and announcements."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit

from gui.plots.card import CURVE, MAX_CURVES, NOTHING, describe
from gui.runs.actions import RunActions
from gui.runs.words import RunHeader
from gui.widgets import messages as announcement
from gui.widgets.messages import MessageStrip
from gui.window.panels import HeaderPanel


def tree(widget) -> dict[str, str]:
    """Return the descriptions of everything that can be seen in a widget, by its name for a screen reader."""
    found, todo = {}, [QAccessible.queryAccessibleInterface(widget)]
    while todo:
        each = todo.pop()
        if each is None or not each.isValid() or each.state().invisible:
            continue
        found[each.text(QAccessible.Text.Name)] = each.text(QAccessible.Text.Description)
        todo += [each.child(number) for number in range(each.childCount())]
    return found


@pytest.fixture
def told(monkeypatch) -> list[str]:
    """What was announced."""
    texts: list[str] = []
    monkeypatch.setattr(announcement.QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(
        announcement.QAccessible, "updateAccessibility", lambda event: texts.append(event.message()), raising=True
    )
    return texts


@pytest.mark.slow
def test_names_say_state_verdict_and_problems(drive) -> None:
    panel = drive()
    panel.until(lambda: "Tick one or more" in panel.start_status.text(), "the problem")
    names = tree(panel.window)
    assert "State of the run: No run" in names
    assert any(name.startswith("Start: ") and "Tick one or more" in name for name in names)
    panel.window.panels.header.show_header(
        RunHeader(label="Finished", sentence="Training was completed.", name="a", released="memory released in 0.5 s")
    )
    names = tree(panel.window)
    assert names["State of the run: Finished"] == "Training was completed."
    assert "Memory after training: memory released in 0.5 s" in names
    fields = (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit)
    parts = [each for kind in fields for each in panel.window.findChildren(kind) if each.isVisible()]
    spoken = {each: QAccessible.queryAccessibleInterface(each).text(QAccessible.Text.Name) for each in parts}
    assert [each.objectName() for each, name in spoken.items() if not name and each.focusProxy() is None] == []


def test_state_verdict_and_messages_are_announced(qtbot, told) -> None:
    header, strip = HeaderPanel(RunActions()), MessageStrip("strip")
    for widget in (header, strip):
        qtbot.addWidget(widget)
    header.show()
    running = RunHeader(label="Running", name="a")
    header.show_header(running)
    header.show_header(RunHeader(label="Running", name="a", detail="1 step/s"))
    header.show_header(RunHeader(label="Finished", name="a", released="memory released in 0.5 s"))
    strip.show_message("The disk is full.", "bad")
    assert told == [
        "State of the run: Running", "State of the run: Finished", "memory released in 0.5 s", "The disk is full.",
    ]


def test_nothing_is_announced_without_a_reader(qtbot, monkeypatch) -> None:
    monkeypatch.setattr(announcement.QAccessible, "isActive", lambda: False)
    monkeypatch.setattr(announcement.QAccessible, "updateAccessibility", lambda _: pytest.fail("announced"))
    strip = MessageStrip("strip")
    qtbot.addWidget(strip)
    strip.show_message("The disk is full.", "bad")


def test_plot_describes_its_curves(plots, run_series) -> None:
    loss = plots["lossPlot"]
    loss.show_series(run_series, {}, {})
    loss.redraw()
    loss.describe()
    described = QAccessible.queryAccessibleInterface(loss.canvas).text(QAccessible.Text.Description)
    assert "as the lowest value" in described or "stays at" in described


def test_description_of_curves() -> None:
    def curve(*values: float):
        return np.arange(float(len(values))), np.array(values)

    falls = describe({"a": curve(3, np.nan, 0.5, 1), "b": curve(2, 2), "c": curve(np.nan)}, {"a": "GPU 0"}, "GB")
    whole = CURVE.format(name="GPU 0", first="3 GB", last="1 GB", lowest="0.5 GB", highest="3 GB")
    assert falls == f"{whole} b stays at 2 GB."
    many = describe({str(number): curve(1, 2) for number in range(MAX_CURVES + 3)}, {}, "")
    assert many.endswith("3 more curves are not described.")
    assert describe({}, {}, "") == NOTHING
