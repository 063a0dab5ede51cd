"""A box to choose one of a few items. Its list is high and wide enough for all of them."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox

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
