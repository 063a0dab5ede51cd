"""The lines below the form: how the batch is split, and whether the run can start."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from core.language import tr
from gui.style.theme import mark
from gui.viewmodels.setup.start_check import StartCheck
from gui.widgets.announcement import announce
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel


class StartStatus(QWidget):
    """Shows a `StartCheck`."""

    def __init__(self) -> None:
        super().__init__()
        self.arithmetic = _label("batchLabel")
        self.arithmetic.setProperty("role", "muted")
        self.sentences = _label("problemsLabel")
        vbox(self, self.arithmetic, self.sentences, gap=4, margins=(0, 4, 0, 4))

    def show_check(self, check: StartCheck) -> None:
        """Show whether the run can start, or why not."""
        self.arithmetic.setText(check.arithmetic)
        self.arithmetic.setVisible(bool(check.arithmetic))
        obstacles = (*check.problems, *check.busy)
        warns = bool(obstacles) or check.is_warning
        text = "\n".join(obstacles) or (check.ready if warns else f"✓  {check.ready}")
        if text != self.sentences.text():
            self.sentences.setText(text)
            self.sentences.setAccessibleName(tr("Start: {text}", text=text))
            announce(self.sentences, text)
            mark(self.sentences, tone="warn" if warns else "good")


def _label(name: str) -> PlainLabel:
    label = PlainLabel(name=name, wraps=True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
