"""The words at the right of a card's title."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLabel, QSizePolicy

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent


class SideLabel(QLabel):
    """A label that never widens its card. Where it has no room it is blank: half a number is a wrong number."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint all of the words or none."""
        if self.sizeHint().width() <= self.width():
            super().paintEvent(event)
