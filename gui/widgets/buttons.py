"""Small buttons and check boxes; buttons that keep the focus while they are disabled."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QCheckBox, QPushButton, QStyle, QStyleOptionButton

from gui.widgets.plain_text import verbatim


def compact_button(name: str, text: str, tip: str = "", *, role: str = "", spoken: str = "") -> QPushButton:
    """Return a small button.

    `role`: one of the style sheet, see its head; `spoken`: what a screen reader says in place of the text.
    """
    button = QPushButton(text)
    button.setObjectName(name)
    button.setProperty("compact", True)
    if role:
        button.setProperty("role", role)
    if tip:
        button.setToolTip(verbatim(tip))
    if spoken:
        button.setAccessibleName(spoken)
    button.setAutoDefault(False)
    return button


def compact_check(name: str, text: str, tip: str, *, spoken: str = "", checked: bool = False) -> QCheckBox:
    """Return a small check box; the arguments are those of `compact_button`."""
    box = QCheckBox(text)
    box.setObjectName(name)
    box.setProperty("compact", True)
    box.setToolTip(verbatim(tip))
    if spoken:
        box.setAccessibleName(spoken)
    box.setChecked(checked)
    return box


class SteadyButton(QPushButton):
    """For a button that is disabled while it does what its press has asked for.

    Qt would move the focus to the next button, where a second press of the space bar would do something else.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self._compact = False

    def show_compact(self, compact: bool) -> None:
        """Show the icon alone, or the text too. The text stays the button's name in either case."""
        if compact is not self._compact:
            self._compact = compact
            self.updateGeometry()
            self.update()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802 (Qt's signature)
        """Keep the focus when Qt asks because this button was disabled: a disabled widget receives no keys."""
        return True if not self.isEnabled() else super().focusNextPrevChild(forward)

    def initStyleOption(self, option: QStyleOptionButton) -> None:  # noqa: N802 (Qt's name)
        """Leave out the text of a compact button."""
        super().initStyleOption(option)
        if self._compact:
            option.text = ""

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size of the icon in its frame, or that of icon and text."""
        whole = super().sizeHint()
        if not self._compact:
            return whole
        option = QStyleOptionButton()
        self.initStyleOption(option)
        framed = self.style().sizeFromContents(QStyle.ContentsType.CT_PushButton, option, self.iconSize(), self)
        return QSize(framed.width(), whole.height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size: a cut text would mislead."""
        return self.sizeHint()
