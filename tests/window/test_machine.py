"""This machine: what the window shows without a run, and how one comes back to it."""

from __future__ import annotations

import json

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton

from core.schema.paths import EVENTS, SUPERVISOR_EVENTS
from gui.plots.area import LIVE_NOTE
from tests.support.long_run import write_long_run


@pytest.fixture
def panel(drive, runs_root):
    """A window with a finished run and one that failed before anything was measured."""
    write_long_run(runs_root, steps=200, lines=10, rounds=10, name="20260101-000000-done-0000")
    failed = write_long_run(runs_root, steps=100, lines=1, rounds=1, name="20260102-000000-failed-0000")
    for path in (failed / EVENTS).iterdir():
        if path.name != SUPERVISOR_EVENTS:
            path.unlink()
    lines = (failed / EVENTS / SUPERVISOR_EVENTS).read_text().splitlines()
    last = {**json.loads(lines[-1]), "state": "failed", "error": "No CUDA."}
    (failed / EVENTS / SUPERVISOR_EVENTS).write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    panel = drive()
    panel.until(lambda: panel.runs.count() == 2, "the runs")
    return panel


def entry(panel) -> QPushButton:
    return panel.window.findChild(QPushButton, "machineEntry")


def look_at(panel, row: int) -> None:
    panel.runs.itemClicked.emit(panel.runs.item(row))


@pytest.mark.styled
def test_entry_and_escape_lead_from_run_to_machine(panel):
    assert entry(panel).isChecked()
    bottom = entry(panel).mapToGlobal(entry(panel).rect().bottomLeft()).y()
    assert bottom <= panel.runs.mapToGlobal(panel.runs.rect().topLeft()).y()
    look_at(panel, 1)
    assert (panel.state.text(), entry(panel).isChecked()) == ("Finished", False)
    entry(panel).click()
    assert (entry(panel).isChecked(), panel.runs.currentRow()) == (True, -1)
    assert panel.state.text() == "No run"
    entry(panel).click()
    assert entry(panel).isChecked()
    look_at(panel, 1)
    panel.window.panels.menu.action("machine").trigger()
    assert (panel.state.text(), entry(panel).isChecked()) == ("No run", True)
    look_at(panel, 1)
    panel.runs.setFocus()
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_Escape)
    assert panel.state.text() == "No run"
    look_at(panel, 1)
    field = next(each for each in panel.window.findChildren(QLineEdit) if each.isVisible())
    field.setFocus()
    panel.qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert (panel.state.text(), field.hasFocus()) == ("Finished", False), "in a field, it leaves only the field"
    panel.qtbot.keyClick(panel.window, Qt.Key.Key_Escape)
    assert panel.state.text() == "No run"

    look_at(panel, 0)
    live = panel.window.services.device_monitor.series
    assert panel.state.text() == "Failed"
    assert panel.plot("utilisationPlot").run_series is panel.plot("memoryPlot").run_series is live
    assert panel.plot("lossPlot").run_series is not live
    assert LIVE_NOTE in notes(panel, "memoryPlot"), "a start that failed leaves the live devices in sight"
    look_at(panel, 1)
    assert panel.plot("utilisationPlot").run_series is panel.window.services.session.run_series
    entry(panel).click()
    assert panel.plot("utilisationPlot").run_series is live
    assert LIVE_NOTE not in notes(panel, "utilisationPlot")


def notes(panel, plot: str) -> list[str]:
    return [each.text() for each in panel.plot(plot).findChildren(QLabel)]
