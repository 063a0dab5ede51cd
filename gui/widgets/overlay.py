"""Keep a widget over the top or the foot of another one, outside the layout."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint
from PySide6.QtWidgets import QWidget

MARGIN_PX = 12
EDGE_PX = 3
"""Distance of a widget that covers a heading from the edge above it."""
LINES_BELOW_TOP = 2
"""Lines of text to leave free above a widget at the top: the heading of what it covers."""
MAX_LETTERS = 110
"""Maximum width of the widget above, in average letters: longer lines are hard to read."""


class Overlay(QObject):
    """Places `above` over `ground`; both are in the same window. The owner of `above` shows and hides it."""

    def __init__(self, above: QWidget, ground: QWidget, window: QWidget) -> None:
        """Make `above` a child of the window."""
        super().__init__(above)
        self._above, self._ground, self._window = above, ground, window
        is_hidden = above.isHidden()
        above.setParent(window)
        above.setHidden(is_hidden)
        for widget in (above, ground):
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the ground, and the size that the content needs."""
        if event.type() in _MOVES.get(watched is self._above, ()):
            self.place()
        elif watched is self._above and event.type() == QEvent.Type.Hide and self._above.isHidden():
            self._place_hidden()  # not if it was hidden with its window, which may be on its way out
        return False

    def place(self) -> None:
        """Place the widget: as wide as it may be, as high as it must be."""
        above, ground = self._above, self._ground
        if above.isHidden():
            self._place_hidden()
            return
        width = min(ground.width() - 2 * MARGIN_PX, self._widest())
        down, height = self._place_in(width)
        top = ground.mapTo(self._window, QPoint(0, 0))
        self._raise()
        above.setGeometry(top.x() + (ground.width() - width) // 2, top.y() + down, width, height)

    def _raise(self) -> None:
        """Put the widget in front of the ground if it is behind. What lies over both stays there."""
        card = self._ground
        while (parent := card.parentWidget()) is not None and parent is not self._window:
            card = parent
        order = self._window.children()  # from the back to the front
        if card in order and order.index(self._above) < order.index(card):
            self._above.raise_()

    def _widest(self) -> int:
        """Return the greatest width of the widget."""
        return MAX_LETTERS * self._above.fontMetrics().averageCharWidth()

    def _place_in(self, width: int) -> tuple[int, int]:
        """Return the distance from the top of the ground, and the height, of a widget with this width."""
        raise NotImplementedError

    def _place_hidden(self) -> None:
        """Do what is due when the widget is hidden."""

    def _height(self, width: int) -> int:
        """Return the height that the widget needs."""
        layout = self._above.layout()
        if layout is not None and layout.hasHeightForWidth():
            return layout.totalHeightForWidth(width)
        return self._above.sizeHint().height()


class TopOverlay(Overlay):
    """Lies below the heading of the part that it may cover, or over the heading too where there is no room."""

    def __init__(
        self, above: QWidget, ground: QWidget, window: QWidget, room: Callable[[], int], fit: Callable[[int, int], None]
    ) -> None:
        """`room`: returns the height of that part.

        `fit`: leaves out what would make the widget too high, for a width and a height.
        """
        self._room, self._fit = room, fit
        super().__init__(above, ground, window)

    def _place_in(self, width: int) -> tuple[int, int]:
        room = self._room()
        down = LINES_BELOW_TOP * self._above.fontMetrics().lineSpacing() + MARGIN_PX
        self._fit(width, room - 2 * EDGE_PX)
        height = self._height(width)
        return (down if height <= room - down else EDGE_PX), height


class CentredOverlay(Overlay):
    """Lies in the middle of the first part of the ground, below its heading, as wide as its content."""

    def __init__(self, above: QWidget, ground: QWidget, window: QWidget, room: Callable[[], int]) -> None:
        """`room`: returns the height of that part."""
        self._room = room
        super().__init__(above, ground, window)

    def _widest(self) -> int:
        return min(super()._widest(), self._above.sizeHint().width())

    def _place_in(self, width: int) -> tuple[int, int]:
        height = self._height(width)
        heading = LINES_BELOW_TOP * self._above.fontMetrics().lineSpacing()
        return max((heading + self._room() - height) // 2, 0), height


class FootOverlay(Overlay):
    """Lies at the foot of the ground, which leaves this room free, so that nothing is covered."""

    def __init__(self, above: QWidget, ground: QWidget, window: QWidget, keep_free: Callable[[int], None]) -> None:
        """`keep_free`: is told the height that the ground must leave free at its foot."""
        self._keep_free = keep_free
        super().__init__(above, ground, window)

    def _place_in(self, width: int) -> tuple[int, int]:
        height = self._height(width)
        self._keep_free(height)
        return max(self._ground.height() - height, 0), height

    def _place_hidden(self) -> None:
        self._keep_free(0)


_MOVES = {
    False: (QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Show, QEvent.Type.ZOrderChange),
    True: (QEvent.Type.LayoutRequest, QEvent.Type.Show, QEvent.Type.FontChange, QEvent.Type.StyleChange),
}
"""Events of the widget above, and of the ground, after which it is placed again."""
