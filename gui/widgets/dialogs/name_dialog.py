"""A dialog that asks for a name."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from core.language import tr
from gui.style.theme import mark
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel

from .dialog import MARGINS_PX, answer_buttons

WIDTH_PX = 380


class NameDialog(QDialog):
    """A dialog that does not block the window; `named` reports the name."""

    named = Signal(str)

    def __init__(
        self, parent: QWidget, *, question: str, name: str, yes: str, judge: Callable[[str], tuple[str, str]],
        may_be_empty: bool = False,
    ) -> None:  # fmt: skip
        """`judge`: returns why a name cannot be used (or the empty string), and a notice about it."""
        super().__init__(parent)
        self.setObjectName("nameDialog")
        self.setWindowTitle("Trainyard")
        self._judge, self._may_be_empty = judge, may_be_empty
        heading = PlainLabel(question, role="heading")
        self.edit = QLineEdit(name)
        self.edit.setObjectName("nameEdit")
        self.edit.setAccessibleName(question)
        self.edit.setMinimumWidth(WIDTH_PX)
        self.notice = PlainLabel(wraps=True)
        self.yes, buttons = answer_buttons(self, yes)
        self.accepted.connect(lambda: self.named.emit(self.edit.text().strip()))
        self.finished.connect(self.deleteLater)
        self.edit.textChanged.connect(lambda _: self._check_name())
        vbox(self, heading, self.edit, self.notice, buttons, gap=12, margins=MARGINS_PX)
        self._check_name()
        self.edit.selectAll()
        self.edit.setFocus()

    def _check_name(self) -> None:
        name = self.edit.text().strip()
        problem, notice = self._judge(name) if name or self._may_be_empty else (tr("Enter a name."), "")
        self.yes.setEnabled(not problem)
        self.notice.setText(problem or notice or " ")
        mark(self.notice, tone="bad" if problem and name else "warn" if notice else "muted")
