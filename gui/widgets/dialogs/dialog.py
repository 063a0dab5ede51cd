"""A dialog that informs: a heading, its content, and a row of buttons with Close. It does not block the window.

`answer_buttons` makes the row of a dialog that asks.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QPushButton, QWidget

from core.language import tr
from gui.style.theme import mark
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel

MARGINS_PX = (20, 18, 20, 14)
LABEL = 16
"""Width of the label of a row, in letters."""


class InfoDialog(QDialog):
    """Is deleted when it is closed. `content` has the layout between heading and buttons."""

    def __init__(self, parent: QWidget, *, name: str, heading: str) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setWindowTitle(heading)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        title = PlainLabel(heading, role="heading")
        close = QPushButton(tr("Close"))
        close.setObjectName("closeButton")
        close.clicked.connect(self.reject)
        close.setDefault(True)
        layout = vbox(self, title, gap=12, margins=MARGINS_PX)
        self.content = vbox(layout, gap=12)
        layout.setStretch(1, 1)
        self._buttons = hbox(layout, 0, close, gap=6)
        self.ensurePolished()  # so that sizes are those of the font that is shown

    def add_button(self, name: str, text: str, action: Callable[[], object]) -> QPushButton:
        """Add a button at the left of the row."""
        button = QPushButton(text)
        button.setObjectName(name)
        button.setAutoDefault(False)
        button.clicked.connect(lambda _: action())
        self._buttons.insertWidget(self._buttons.count() - 2, button)  # left of the stretch
        return button

    def add_form(self, title: str) -> QFormLayout:
        """Add a group of rows with a heading."""
        heading = PlainLabel(title, role="small")
        heading.setStyleSheet("font-weight: bold;")
        form = QFormLayout()
        self.content.addLayout(form)
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(heading)
        return form

    def row_label(self, text: str, buddy: QWidget | None = None) -> PlainLabel:
        """Return the label of a row; all are equally wide, so that the groups are aligned."""
        made = PlainLabel(text)
        if buddy is not None:
            made.setBuddy(buddy)
        made.setMinimumWidth(self.characters(LABEL))
        return made

    def characters(self, count: int) -> int:
        """Return the width of this many characters of the font, in pixels."""
        return self.fontMetrics().horizontalAdvance("n") * count

    def lines(self, count: int) -> int:
        """Return the height of this many lines of text, in pixels."""
        return self.fontMetrics().lineSpacing() * count


def answer_buttons(dialog: QDialog, yes: str) -> tuple[QPushButton, QDialogButtonBox]:
    """Return the button that accepts a dialog, which is the default, and the row of it and Cancel."""
    accept = QPushButton(yes)
    accept.setObjectName("yesButton")
    accept.setDefault(True)
    mark(accept, role="primary")
    cancel = QPushButton(tr("Cancel"))
    cancel.setObjectName("noButton")
    cancel.setAutoDefault(False)
    buttons = QDialogButtonBox()
    buttons.addButton(accept, QDialogButtonBox.ButtonRole.AcceptRole)
    buttons.addButton(cancel, QDialogButtonBox.ButtonRole.RejectRole)
    buttons.accepted.connect(dialog.accept)
    buttons.rejected.connect(dialog.reject)
    return accept, buttons
