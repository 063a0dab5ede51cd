"""A thin bar along the upper edge of a widget while something is read for it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtWidgets import QProgressBar, QWidget

from core.language import tr, tr_noop

PARTS = 1000
HEIGHT_PX = 4
WHAT = tr_noop("Reading the run: the curves are coarse until it is read")


class ReadingBar(QProgressBar):
    """Lies over the widget and takes no room. Hidden unless something is being read."""

    def __init__(self, over: QWidget) -> None:
        super().__init__(over.window())
        self.setObjectName("readingBar")
        self.setAccessibleName(tr(WHAT))
        self.setToolTip(tr(WHAT))
        self.setRange(0, PARTS)
        self.setTextVisible(False)
        self.setStyleSheet(f"QProgressBar {{ min-height: {HEIGHT_PX}px; max-height: {HEIGHT_PX}px; }}")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._over = over
        over.installEventFilter(self)
        self.hide()

    def show_share(self, share: float) -> None:
        """Show the share that was read, 0 to 1; at 1 the bar disappears."""
        self.setValue(round(PARTS * share))
        if share >= 1.0:
            self.hide()
        elif self.isHidden():
            self._place()
            self.show()
            self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the widget."""
        if event.type() in {QEvent.Type.Resize, QEvent.Type.Move} and not self.isHidden():
            self._place()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        corner = self._over.mapTo(self._over.window(), QPoint(0, 0))
        self.setGeometry(corner.x(), corner.y(), self._over.width(), HEIGHT_PX)
