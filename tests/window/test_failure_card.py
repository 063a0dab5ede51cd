"""The card about a failed run: it lies over the plots, and its buttons fill the form, show the log, or start again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QLabel, QPushButton

from gui.features.run.events import FailureCard, FailureView
from tests.support.recorded import recorded

pytestmark = pytest.mark.styled

FULL = "Worker 0 on cpu:0: RuntimeError: can't allocate memory: you tried to allocate 9 bytes."
VIEW = FailureView(
    title="The program ended with exit code 3", sentence="It printed nothing.", place="", lines=(), smaller=None,
    smaller_words="", can_run_again=True, rank=0, sought="",
)


def fail(run_dir: Path, error: str, log: str = "") -> None:
    """Make a recorded run one that failed."""
    path = run_dir / "events" / "supervisor.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-1] |= {"state": "failed", "error": error}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run_dir / "log.txt").write_text(log)


@pytest.mark.slow
def test_card_offers_half_the_batch_and_takes_no_room(drive, runs_root):
    run_dir = recorded(runs_root)
    fail(run_dir, FULL, "one\ntwo\nRuntimeError: can't allocate memory\n")
    panel = drive()
    window = panel.window
    panel.until(lambda: panel.runs.count() == 1)
    plots = window.panels.plots.geometry()
    panel.runs.itemActivated.emit(panel.runs.item(0))
    panel.until_state("Failed")
    card = window.findChild(QFrame, "failureCard")
    panel.until(lambda: card.isVisible() and card.height() > 100, "the card")
    assert window.panels.plots.geometry() == plots
    assert window.centralWidget().geometry().contains(card.geometry().center())
    quoted = card.lines[0].parentWidget()
    for size in ((900, 600), (1480, 1000)):  # the docks are rearranged, and the card stays in front
        window.resize(*size)
        panel.until(lambda: card.isAncestorOf(window.childAt(card.geometry().center()) or window), "the card in front")
        second = window.panels.plots.widget(1)
        panel.until(
            lambda second=second: card.geometry().bottom() < second.mapTo(window, QPoint(0, 0)).y(),
            "the card over the first plot only",
        )
        # Lines are left out where there is no room for them.
        panel.until(lambda size=size: quoted.isVisible() is (size == (1480, 1000)), f"the lines at {size}")
    assert window.findChild(QLabel, "failureTitle").text() == "The machine ran out of memory at step 50"
    assert card.accessibleName() == "The machine ran out of memory at step 50"
    smaller = window.findChild(QPushButton, "failureSmallerButton")
    assert smaller.text() == "Try batch 32"
    panel.qtbot.mouseClick(smaller, Qt.MouseButton.LeftButton)
    panel.until(lambda: (spec := panel.spec()) is not None and spec.training.batch_size == 32, "the smaller batch")
    assert panel.runs.count() == 1  # it fills the form, and starts nothing
    panel.qtbot.mouseClick(window.findChild(QPushButton, "failureAgainButton"), Qt.MouseButton.LeftButton)
    panel.until(lambda: panel.runs.count() == 2, "another run")
    panel.until(lambda: not card.isVisible(), "no card about a run that goes on")


def test_closed_card_stays_closed_until_another_run_is_looked_at(qtbot):
    card = FailureCard()
    qtbot.addWidget(card)
    card.show_failure(VIEW)
    assert card.isVisible()
    assert not card.log_button.isVisible()  # there is nothing to look for
    assert not card.smaller_button.isVisible()
    qtbot.mouseClick(card.close_button, Qt.MouseButton.LeftButton)
    card.show_failure(VIEW)
    assert not card.isVisible()
    card.show_failure(None)
    card.show_failure(VIEW)
    assert card.isVisible()


def test_empty_parts_speak_of_the_state_of_the_run(assemble, runs_root):
    run_dir = recorded(runs_root)
    for name in ("worker-0", "devices"):
        (run_dir / "events" / f"{name}.jsonl").write_text("")
    fail(run_dir, "It could not be started.")
    path = run_dir / "events" / "supervisor.jsonl"
    kept = [line for line in path.read_text().splitlines() if '"running"' not in line and '"releasing"' not in line]
    path.write_text("\n".join(kept) + "\n")
    panel = assemble("run", "history")

    def words() -> tuple[str, ...]:
        return panel.plot("lossPlot").empty.text(), panel.log.placeholderText()

    panel.until(lambda: words()[0].startswith("The loss of a run appears here"), "the words without a run")
    assert words()[1] == "The output of a run appears here."
    panel.runs.itemActivated.emit(panel.runs.item(0))
    panel.until_state("Failed")
    early = ("The run ended before its first step.", "The run ended without any output.")
    panel.until(lambda: words() == early, "the words of a run that failed early")
