"""The guidance for a first run: it stands in the middle while there are no runs, and its buttons do what they say."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from gui.features.setup.reuse import FIRST_STEPS
from gui.runs.progress import Place, Situation, empty_words
from gui.widgets.dialogs import FileDialog

pytestmark = pytest.mark.styled


def is_inside(steps: QWidget, plot: QWidget) -> bool:
    """Return whether the guidance is inside a plot."""
    top = plot.mapTo(plot.window(), QPoint(0, 0)).y()
    return top < steps.y() and steps.geometry().bottom() < top + plot.height()


@pytest.mark.slow
def test_first_run_is_one_click_away(drive, qtbot) -> None:
    panel = drive()
    steps = panel.window.findChild(QWidget, "firstSteps")
    tick, example, script = (panel.window.findChild(QPushButton, name) for name in FIRST_STEPS)
    panel.until(steps.isVisible, "the guidance")
    assert panel.window.findChild(QLabel, "firstStepsHeading").text() == empty_words(Place.LOSS, Situation.FIRST)
    plot = panel.plot("lossPlot")
    assert plot.empty.text() == "", "the guidance stands in place of the sentence"
    for size in ((900, 600), (1480, 900)):
        panel.window.resize(*size)
        panel.until(lambda: is_inside(steps, plot), "the guidance inside the first plot")
        assert all(not button.visibleRegion().isEmpty() for button in (tick, example, script))
    qtbot.mouseClick(tick, Qt.MouseButton.LeftButton)
    assert panel.chosen.ticked
    panel.chosen.tick_only(())
    qtbot.mouseClick(script, Qt.MouseButton.LeftButton)
    panel.window.findChild(FileDialog, "openDialog").reject()
    qtbot.mouseClick(example, Qt.MouseButton.LeftButton)
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.until_state("Finished")
    assert panel.recipe.currentText() == "digits_cnn"
    assert len(panel.chosen.ticked) == 1, "nothing was ticked: it took one free device"
    assert not steps.isVisible()
    panel.window.controllers.run.show_machine()
    panel.until(lambda: plot.empty.text().startswith("The loss of a run appears here"), "the words without a run")
    assert not steps.isVisible(), "there are runs"
