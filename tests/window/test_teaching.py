"""Teach by pointing in the log: marks and tooltips of numbers, the menu, the preview, and the curve afterwards."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAction, QContextMenuEvent, QHelpEvent, QTextCursor
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow

from core.runs import lock
from core.runs.run import Run
from gui.features.log.page import TeachDialog
from tests.support.running import script_spec, start, train
from tests.support.waiting import PATIENCE_S

LINES = """print("words alone")
for n in range(1, 9): print(f"round {n} ~~ the deficit is {8 / n:7.4f} ;; loss {n / 4:.3f}")
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a run again waits until its supervisor, which has just recorded the end, has tidied up."""
    monkeypatch.setattr(lock, "PATIENCE_S", PATIENCE_S)


@pytest.fixture
def taught(assemble, runs_root: Path, tmp_path: Path) -> QMainWindow:
    """A window on a finished run of a script with a curve of the loss, with its log in front."""
    (tmp_path / "rounds.py").write_text(LINES)
    run_dir = train(script_spec("rounds.py", cwd=tmp_path), runs_root).run.dir
    driver = assemble("run", "log")
    window = driver.window
    window.services.session.attach(Run.attach(run_dir))
    window.panels.details.raise_log(0, "round 1")
    log = window.panels.details.log
    driver.qtbot.waitUntil(lambda: log.view.toPlainText().count("round") == 8)
    return window


def place(window: QMainWindow, text: str) -> QPoint:
    """Return where a text stands in the log."""
    view = window.panels.details.log.view
    found = view.document().find(text)
    cursor = QTextCursor(view.document())
    cursor.setPosition(found.selectionStart() + 1)
    return view.cursorRect(cursor).center()


def point(window: QMainWindow, text: str, action: str) -> TeachDialog:
    """Choose what a number is in its menu; return the dialog."""
    menu = window.panels.details.log.view.highlights.menu_at(place(window, text))
    menu.findChild(QAction, action).trigger()
    menu.deleteLater()
    return window.findChild(TeachDialog)


def keep(qtbot, window: QMainWindow, dialog: TeachDialog) -> None:
    """Keep what a dialog shows, and wait until the run was read again."""
    dialog.keep.click()
    qtbot.waitUntil(lambda: window.findChild(TeachDialog) is None)


@pytest.mark.slow
def test_a_number_becomes_a_curve_by_pointing_at_it(taught: QMainWindow, qtbot, tmp_path: Path) -> None:
    highlights, session = taught.panels.details.log.view.highlights, taught.services.session
    qtbot.waitUntil(lambda: {"0.500", "0.750"} <= set(highlights.marked) <= {f"{n / 4:.3f}" for n in range(1, 9)})
    where, viewport = place(taught, "0.750"), taught.panels.details.log.view.viewport()
    highlights.eventFilter(viewport, QHelpEvent(QEvent.Type.ToolTip, where, viewport.mapToGlobal(where)))
    assert viewport.toolTip() == f"loss, step {highlights.number_under(where).step}"
    assert highlights.number_under(place(taught, "4.0000")) is None
    for word, offered in (("words", None), (";;", "Plot 8.0000 as ...")):
        menu = highlights.menu_at(place(taught, word))
        action = menu.findChild(QAction, "plotNumber")
        assert (action and action.text()) == offered, "a line without a number has the usual menu, else the nearest"
        assert menu.actions()
        menu.deleteLater()

    dialog = point(taught, "4.0000", "plotNumber")
    qtbot.waitUntil(dialog.keep.isEnabled)
    assert dialog.edit.text() == "deficit"
    assert dialog.curve.lines["train"].y.tolist() == [round(8 / n, 4) for n in range(1, 9)]
    assert "It matches 8 lines of the log." in dialog.words.text()
    dialog.edit.clear()
    qtbot.keyClicks(dialog.edit, "cost")
    qtbot.waitUntil(lambda: dialog.keep.isEnabled() and "cost would have 8 values" in dialog.words.text())
    keep(qtbot, taught, dialog)
    assert session.run_series.metrics["cost"].values.tolist() == [round(8 / n, 4) for n in range(1, 9)]
    assert session.run_series.metrics["loss"].count == 8, "the dialects still read the rest of the line"
    assert json.loads((tmp_path / "rounds.rules.json").read_text())["rules"] == [
        "round {} ~~ the deficit is  {metric cost} ;; loss {}"
    ]
    qtbot.waitUntil(lambda: {"0.750", "4.0000"} <= set(highlights.marked))

    step = point(taught, "3 ~~", "stepNumber")
    qtbot.waitUntil(step.keep.isEnabled)
    keep(qtbot, taught, step)
    none = point(taught, "0.750", "noMetric")
    qtbot.waitUntil(none.keep.isEnabled)
    assert "The number is no metric then." in none.words.text()
    keep(qtbot, taught, none)
    assert "loss" not in session.run_series.metrics
    assert session.run_series.metrics["cost"].steps.tolist() == list(range(1, 9))
    assert session.run_series.metrics["cost"].count == 8


@pytest.mark.slow
def test_a_live_run_is_read_anew_when_it_is_over(assemble, qtbot, runs_root: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    (tmp_path / "live.py").write_text(
        "import pathlib, time\n"
        "for n in range(1, 5): print(f'deficit is {8 / n:.4f} now', flush=True)\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\n"
    )
    followed = start(script_spec("live.py", cwd=tmp_path), runs_root)
    window = assemble("run", "log").window
    window.services.session.attach(Run.attach(followed.run.dir))
    window.panels.details.raise_log(0, "deficit")
    qtbot.waitUntil(lambda: window.panels.details.log.view.toPlainText().count("deficit") == 4)
    dialog = point(window, "4.0000", "plotNumber")
    qtbot.waitUntil(dialog.keep.isEnabled)
    keep(qtbot, window, dialog)
    assert "deficit" not in window.services.session.run_series.metrics
    go.touch()
    qtbot.waitUntil(lambda: "deficit" in window.services.session.run_series.metrics)
    assert window.services.session.run_series.metrics["deficit"].values.tolist() == [8.0, 4.0, 2.6667, 2.0]


@pytest.mark.slow
def test_the_empty_plot_leads_to_the_numbers_of_the_log(assemble, qtbot, runs_root: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('for n in range(1, 5): print(f"we are at {8 / n:.4f} of 9")\n')
    run_dir = train(script_spec("own.py", cwd=tmp_path), runs_root).run.dir
    window = assemble("run", "log").window
    window.services.session.attach(Run.attach(run_dir))
    log, button = window.panels.details.log, window.panels.plots.plots["lossPlot"].teach_button
    qtbot.waitUntil(lambda: button.isVisible() and log.view.toPlainText().count("we are at") == 4)
    button.click()
    assert log.isVisible()
    qtbot.waitUntil(lambda: {"4.0000", "9"} <= set(log.view.highlights.marked))
    qtbot.keyClick(log.view, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not log.view.highlights.marked)
    viewport, where = log.view.viewport(), place(window, "4.0000")
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=where)
    assert window.findChild(TeachDialog) is None, "a click does nothing else than usual"
    button.click()
    for key, number in ((Qt.Key.Key_Home, "8.0000"), (Qt.Key.Key_End, "9")):
        qtbot.keyClick(log.view, Qt.Key.Key_Home, Qt.KeyboardModifier.ControlModifier)
        qtbot.keyClick(log.view, key)
        at = log.view.cursorRect().center()
        QApplication.sendEvent(log.view, QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, at, at))
        menu = QApplication.activePopupWidget()
        assert menu.findChild(QAction, "plotNumber").text() == f"Plot {number} as ..."
        menu.close()
        qtbot.keyClick(log.view, Qt.Key.Key_Return)
        dialog = window.findChild(TeachDialog)
        assert f"Plot {number} as a metric" in [label.text() for label in dialog.findChildren(QLabel)]
        dialog.reject()
        qtbot.waitUntil(lambda: window.findChild(TeachDialog) is None)
        button.click()
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=where)
    dialog = window.findChild(TeachDialog)
    qtbot.waitUntil(dialog.keep.isEnabled)
    dialog.edit.clear()
    qtbot.keyClicks(dialog.edit, "loss")
    qtbot.waitUntil(lambda: dialog.keep.isEnabled() and "loss would have 4 values" in dialog.words.text())
    keep(qtbot, window, dialog)
    qtbot.waitUntil(lambda: "loss" in window.services.session.run_series.metrics and not button.isVisible())
    assert not log.view.highlights.points
    (tmp_path / "silent.py").write_text("")
    window.services.session.attach(Run.attach(train(script_spec("silent.py", cwd=tmp_path), runs_root).run.dir))
    qtbot.waitUntil(lambda: button.isVisible() and log.view.placeholderText() == "The run printed no output.")
    button.click()
    assert not log.view.highlights.points, "there is nothing to click"
