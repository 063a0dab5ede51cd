"""The strip about processes that runs left behind, with buttons to show and end them."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton

from core.language import tr
from gui.widgets.compact import compact_button
from gui.widgets.messages import MessageStrip


class LeftoversStrip(MessageStrip):
    """A message with two buttons."""

    show_asked = Signal()
    end_asked = Signal()

    def __init__(self) -> None:
        super().__init__("leftoversStrip")
        self.show_button = self._button("showLeftovers", tr("Show"), tr("Show these processes"))
        self.end_button = self._button("endLeftovers", tr("End…"), tr("End these processes (asks first)"))
        self.show_button.clicked.connect(self.show_asked)
        self.end_button.clicked.connect(self.end_asked)

    def _button(self, name: str, text: str, tip: str) -> QPushButton:
        button = compact_button(name, text, tip, spoken=tip)
        self.add_button(button)
        return button
