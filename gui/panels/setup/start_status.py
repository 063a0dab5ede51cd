"""Under the form: how the batch is made up, and whether all is ready or what is in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from gui.style.theme import mark

if TYPE_CHECKING:
    from gui.viewmodels.setup.start_check import StartCheck


class StartStatus(QWidget):
    """Shows an outlook."""

    def __init__(self) -> None:
        super().__init__()
        self.arithmetic = _label("batchLabel")
        self.arithmetic.setProperty("role", "muted")
        self.sentences = _label("problemsLabel")
        self.sentences.setAccessibleName("Whether the training can be started")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 4)
        layout.setSpacing(4)
        layout.addWidget(self.arithmetic)
        layout.addWidget(self.sentences)

    def show_outlook(self, outlook: StartCheck) -> None:
        """Show what would come of pressing Start."""
        self.arithmetic.setText(outlook.arithmetic)
        self.arithmetic.setVisible(bool(outlook.arithmetic))
        in_the_way = (*outlook.problems, *outlook.busy)
        warns = bool(in_the_way) or outlook.wary
        text = "\n".join(in_the_way) or (outlook.ready if warns else f"✓  {outlook.ready}")
        if text != self.sentences.text():
            self.sentences.setText(text)
            mark(self.sentences, tone="warn" if warns else "good")


def _label(name: str) -> QLabel:
    label = QLabel()
    label.setObjectName(name)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
