"""The steps to release memory that is still held: each with its command and a button that copies it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from core.diagnosis.remedies import Remedy
from core.language import tr, tr_noop
from gui.widgets.compact import compact_button
from gui.widgets.plain_text import PlainLabel

HEADING = tr_noop("What you can try, gentlest first. Trainyard never does these for you.")

BESIDE_PX = 3
"""Room above a line of text beside a button, which is higher."""


class RemedyList(QWidget):
    """Hidden while there is nothing to do."""

    copy_asked = Signal(str)
    """This command is to be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("remedyList")
        self._shown: list[Remedy] | None = None
        heading = PlainLabel(tr(HEADING))
        heading.setProperty("role", "heading")
        heading.setWordWrap(True)
        self._steps = QWidget()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(9, 4, 6, 6)
        self._layout.setSpacing(4)
        self._layout.addWidget(heading)
        self._layout.addWidget(self._steps)
        self.show_remedies(())

    def show_remedies(self, remedies: Sequence[Remedy]) -> None:
        """Show these steps."""
        if list(remedies) == self._shown:
            return
        self._shown = list(remedies)
        self.setVisible(bool(remedies))
        fresh = QWidget()
        self._layout.replaceWidget(self._steps, fresh)
        self._steps.deleteLater()
        self._steps = fresh
        grid = QGridLayout(fresh)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(3)
        grid.setColumnStretch(1, 1)
        monospace = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
        for number, remedy in enumerate(remedies):
            step = PlainLabel(f"{number + 1}.  {remedy.step}")
            step.setWordWrap(True)
            command = PlainLabel(remedy.command)
            command.setWordWrap(True)
            for text in (step, command):
                text.setContentsMargins(0, BESIDE_PX, 0, 0)
            command.setStyleSheet(f'font-family: "{monospace}";')
            command.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            spoken = tr("Copy the command: {command}", command=remedy.command)
            button = compact_button(f"remedyCopy{number}", tr("Copy"), spoken=spoken)
            button.clicked.connect(lambda _, command=remedy.command: self.copy_asked.emit(command))
            grid.addWidget(step, number, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(command, number, 1, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(button, number, 2, Qt.AlignmentFlag.AlignTop)
        grid.setColumnStretch(0, 1)
