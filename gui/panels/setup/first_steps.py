"""Guidance for a first run: what to begin with, in the middle of the window while there are no runs."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from core.language import tr
from gui.viewmodels.run.empty_states import EXAMPLE, FIRST_STEPS, FirstStep
from gui.widgets.compact import compact_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import PlainLabel


class FirstSteps(QWidget):
    """A heading, and a button with a sentence for each of `FIRST_STEPS`. Hidden until there is a heading."""

    asked = Signal(str)
    """The name of a button that was pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("firstSteps")
        self._heading = PlainLabel(name="firstStepsHeading", role="heading")
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setHorizontalSpacing(12)
        self._layout.setVerticalSpacing(4)
        self._layout.setColumnStretch(1, 1)
        self._layout.addWidget(self._heading, 0, 0, 1, 2)
        for number, step in enumerate(FIRST_STEPS):
            self._add(number + 1, step)
        self.hide()

    def show_heading(self, heading: str) -> None:
        """Show the guidance below a heading; the empty string hides it."""
        self._heading.setText(heading)
        self.setAccessibleName(heading)
        self.setVisible(bool(heading))

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size in which all sentences are whole."""
        return self._layout.sizeHint()

    def _add(self, line: int, step: FirstStep) -> None:
        button = compact_button(step.name, tr(step.button, example=EXAMPLE))
        button.setAccessibleDescription(tr(step.sentence))
        button.clicked.connect(lambda: self.asked.emit(step.name))
        sentence = ElidedLabel(tr(step.sentence), role="muted")
        self._layout.addWidget(button, line, 0)
        self._layout.addWidget(sentence, line, 1)
