"""The messages of a window, one at a time below the plots. Only the plots make room for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QKeyEvent

    from .message_strip import MessageStrip


class MessageStack(QWidget):
    """Shows the newest open strip; each says which of how many it is, and leads to the next. Escape dismisses it."""

    def __init__(self, strips: Sequence[MessageStrip]) -> None:
        super().__init__()
        self.setObjectName("messageStack")
        self._strips = list(strips)
        self._open: list[MessageStrip] = []
        """The open strips, the newest first."""
        self._shown: MessageStrip | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for strip in self._strips:
            layout.addWidget(strip)
            strip.is_stacked = True
            strip.opened.connect(lambda strip=strip: self._put_first(strip))
            strip.closed.connect(lambda strip=strip: self._take_out(strip))
            strip.next_asked.connect(self._show_next)
        self.hide()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Dismiss the shown message with Escape."""
        if event.key() == Qt.Key.Key_Escape and self._shown is not None:
            self._shown.dismiss()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Keep presses beside the buttons from reaching the plots below."""
        if event.type() in {QEvent.Type.MouseButtonPress, QEvent.Type.Wheel}:
            event.accept()
            return True
        return super().event(event)

    def _put_first(self, strip: MessageStrip) -> None:
        self._open = [strip, *(each for each in self._open if each is not strip)]
        self._show(strip)

    def _take_out(self, strip: MessageStrip) -> None:
        self._open = [each for each in self._open if each is not strip]
        if strip is self._shown or not self._open:
            self._show(self._open[0] if self._open else None)
        else:
            self._show(self._shown)

    def _show_next(self) -> None:
        if self._shown in self._open:
            self._show(self._open[(self._open.index(self._shown) + 1) % len(self._open)])

    def _show(self, strip: MessageStrip | None) -> None:
        had_focus = self._shown is not None and self._shown.isAncestorOf(self.focusWidget() or self)
        self._shown = strip
        for number, each in enumerate(self._open):
            each.show_place(number + 1, len(self._open))
        for each in self._strips:
            each.setVisible(each is strip)
        self.setVisible(strip is not None)
        if strip is not None:
            self.raise_()
            if had_focus:
                strip.setFocus()
