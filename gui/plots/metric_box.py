"""The chooser of the metric, in the place of a heading: as wide as what it says."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox

MAX_CHARACTERS = 10
"""Room is kept for at most so many: a recipe may name its metrics as it likes."""


class MetricBox(QComboBox):
    """A box that is as wide as its present text, so that its arrow stands beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.currentTextChanged.connect(lambda _: self.updateGeometry())

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """The text, at most so much of it, and the arrow."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        metrics = self.fontMetrics()
        text_px = min(metrics.horizontalAdvance(self.currentText()), MAX_CHARACTERS * metrics.horizontalAdvance("X"))
        kind, text = QStyle.ContentsType.CT_ComboBox, QSize(text_px, metrics.height())
        width = self.style().sizeFromContents(kind, option, text, self).width()
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """The same: where it has less room, nobody could read it."""
        return QSize(self.sizeHint().width(), super().minimumSizeHint().height())
