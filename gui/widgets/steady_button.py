"""A button that keeps the focus while it is disabled, and can be shown as its icon."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QPushButton, QStyle, QStyleOptionButton


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
