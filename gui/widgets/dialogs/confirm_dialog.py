"""A question before an action that cannot be undone; "Cancel" is the default."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPushButton, QWidget

from core.language import tr
from gui.style.theme import mark
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel

from .dialog import MARGINS_PX

WIDTH_PX = 460


class ConfirmDialog(QDialog):
    """A dialog that does not block the window; `agreed` reports the answer."""

    agreed = Signal()

    def __init__(
        self, parent: QWidget, *, question: str, words: str, yes: str, is_destructive: bool = True,
        other: tuple[str, Callable[[], object]] | None = None,
    ) -> None:  # fmt: skip
        """`yes`: text of the agreeing button; `is_destructive`: mark that button as dangerous.

        `other`: text and action of another answer, which is then the proposed one.
        """
        super().__init__(parent)
        self.setObjectName("question")
        self.setWindowTitle("Trainyard")
        self.question = _label(question, "heading")
        self.words = _label(words, "")
        self.yes = QPushButton(yes)
        self.yes.setObjectName("yesButton")
        self.yes.setAutoDefault(False)
        mark(self.yes, role="danger" if is_destructive else "primary" if other is None else "")
        self.no = QPushButton(tr("Cancel"))
        self.no.setObjectName("noButton")
        self.no.setDefault(True)
        buttons = QDialogButtonBox()
        buttons.addButton(self.yes, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.addButton(self.no, QDialogButtonBox.ButtonRole.RejectRole)
        if other is not None:
            self._add_other(buttons, *other)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.accepted.connect(self.agreed)
        self.finished.connect(self.deleteLater)
        vbox(self, self.question, self.words, buttons, gap=12, margins=MARGINS_PX)
        self.no.setFocus()

    def _add_other(self, buttons: QDialogButtonBox, text: str, action: Callable[[], object]) -> None:
        button = QPushButton(text)
        button.setObjectName("otherButton")
        button.setAutoDefault(False)
        mark(button, role="primary")
        buttons.addButton(button, QDialogButtonBox.ButtonRole.ActionRole)
        button.clicked.connect(self.reject)
        button.clicked.connect(lambda _: action())

    @property
    def text(self) -> str:
        """The whole text of the dialog."""
        return f"{self.question.text()}\n{self.words.text()}"


def ask(
    parent: QWidget, agreed: Callable[[], object], *, question: str, words: str, yes: str, is_destructive: bool = True,
    other: tuple[str, Callable[[], object]] | None = None,
) -> None:  # fmt: skip
    """Ask, unless another question is open; call `agreed` if the answer is yes."""
    if not any(each.isVisible() for each in parent.findChildren(ConfirmDialog)):
        dialog = ConfirmDialog(
            parent, question=question, words=words, yes=yes, is_destructive=is_destructive, other=other
        )
        dialog.agreed.connect(agreed)
        dialog.open()


def _label(text: str, role: str) -> PlainLabel:
    label = PlainLabel(text, role=role, wraps=True)
    label.setMinimumWidth(WIDTH_PX)
    label.setMaximumWidth(WIDTH_PX + 200)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
