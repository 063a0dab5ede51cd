"""A box to choose one of a few items. Its list is high and wide enough for all of them."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox

MARGIN_PX = 28
"""Width that the list needs beside the text of a row."""
MAX_ROWS = 30
"""A longer list scrolls."""


class ChoiceBox(QComboBox):
    """Its list is as wide as its longest text, also where the box itself is narrow."""

    def __init__(self) -> None:
        super().__init__()
        self.setMaxVisibleItems(MAX_ROWS)

    def showPopup(self) -> None:  # noqa: N802 (Qt's name)
        """Make the list wide enough and open it."""
        view = self.view()
        view.setMinimumWidth(view.sizeHintForColumn(0) + MARGIN_PX)
        super().showPopup()


class SnugBox(ChoiceBox):
    """A box that is as wide as its present text, so that it reads like a title."""

    def __init__(self, max_characters: int) -> None:
        """`max_characters`: for how many there is room at most."""
        super().__init__()
        self._max_characters = max_characters
        self.currentTextChanged.connect(lambda _: self.updateGeometry())

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return room for the arrow and the text."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        metrics = self.fontMetrics()
        text_px = min(
            metrics.horizontalAdvance(self.currentText()), self._max_characters * metrics.horizontalAdvance("X")
        )
        kind, text = QStyle.ContentsType.CT_ComboBox, QSize(text_px, metrics.height())
        width = self.style().sizeFromContents(kind, option, text, self).width()
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the same width: the text must stay readable."""
        return QSize(self.sizeHint().width(), super().minimumSizeHint().height())
