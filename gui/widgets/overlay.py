"""Keep a widget over the top or the foot of another one, without taking room from the layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

MARGIN_PX = 12
MAX_LETTERS = 110
"""Maximum width of the widget above, in average letters: longer lines are hard to read."""


class Overlay(QObject):
    """Places `above` over `ground`; both are in the same window. The owner of `above` shows and hides it."""

    def __init__(self, above: QWidget, ground: QWidget, window: QWidget, *, lines_below_top: int | None = 2) -> None:
        """Make `above` a child of the window. `lines_below_top`: lines of text to leave free; None: at the foot."""
        super().__init__(above)
        self._above, self._ground, self._window = above, ground, window
        self._lines = lines_below_top
        is_hidden = above.isHidden()
        above.setParent(window)
        above.setHidden(is_hidden)
        for widget in (above, ground):
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the ground, and the size that the content needs."""
        if event.type() in _MOVES.get(watched is self._above, ()):
            self.place()
        return False

    def place(self) -> None:
        """Place the widget: as wide as it may be, as high as it must be."""
        above, ground = self._above, self._ground
        if above.isHidden():
            return
        metrics = above.fontMetrics()
        width = min(ground.width() - 2 * MARGIN_PX, MAX_LETTERS * metrics.averageCharWidth())
        layout = above.layout()
        wraps = layout is not None and layout.hasHeightForWidth()
        height = layout.totalHeightForWidth(width) if layout is not None and wraps else above.sizeHint().height()
        top = ground.mapTo(self._window, QPoint(0, 0))
        lowest = max(ground.height() - height, 0)
        if self._lines is None:
            down = max(lowest - MARGIN_PX, 0)
        else:
            down = min(self._lines * metrics.lineSpacing() + MARGIN_PX, lowest)
        above.raise_()  # the window may have put the ground in front
        above.setGeometry(top.x() + (ground.width() - width) // 2, top.y() + down, width, height)


_MOVES = {
    False: (QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Show, QEvent.Type.ZOrderChange),
    True: (QEvent.Type.LayoutRequest, QEvent.Type.Show, QEvent.Type.FontChange, QEvent.Type.StyleChange),
}
"""Events of the widget above, and of the ground, after which it is placed again."""
