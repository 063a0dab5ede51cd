"""The line above the devices of a host: its name and its state. A click folds or unfolds the devices."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QFocusEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QStyle, QStyleOptionViewItem

from core.language import tr
from gui.style.icons import paint_mark
from gui.style.theme import current_theme
from gui.viewmodels.devices.host_headings import HostHeading
from gui.widgets.painting import draw_elided, paint_row_background
from gui.widgets.plain_text import verbatim

from .cpu_fold import paint_arrow
from .row_sizes import GAP_PX, LEFT_PX, RIGHT_PX, RowSizes

TONES = {"good": ("good", "muted"), "muted": ("muted", "muted"), "warn": ("warn", "warn"), "bad": ("bad", "bad")}
"""By tone, the colours of the mark and of the words."""
ABOVE_PX = 6
"""Room above the line, in which it is told from the machine before."""
MIN_NAME_PX = 48
"""Width that the name keeps at least."""


class HostHeader(QAbstractButton):
    """Checked while the devices are unfolded."""

    focused = Signal()

    def __init__(self, heading: HostHeading) -> None:
        super().__init__()
        self.setObjectName(f"hostHeader-{heading.name}")
        self.setCheckable(True)
        self.setChecked(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._heading = heading
        self.toggled.connect(lambda _: self._describe())
        self._describe()

    @property
    def heading(self) -> HostHeading:
        """What is shown."""
        return self._heading

    def show_heading(self, heading: HostHeading) -> None:
        """Show the state of the host."""
        if heading != self._heading:
            self._heading = heading
            if not self.hasFocus():  # a screen reader would read out each change
                self._describe()
            self.update()

    def _describe(self) -> None:
        does = tr("Fold the devices of this host") if self.isChecked() else tr("Unfold the devices of this host")
        heading = self._heading
        self.setAccessibleName(heading.accessible_text)
        self.setAccessibleDescription(does)
        self.setToolTip(verbatim("\n".join(part for part in (heading.tip, heading.sentence, does) if part)))

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of a line; the width is that of the list."""
        return QSize(240, RowSizes.of(self.font()).heading + 2 + ABOVE_PX)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Give the present state to a screen reader, and have the line scrolled into view."""
        self._describe()
        super().focusInEvent(event)
        self.focused.emit()

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Highlight the line."""
        super().enterEvent(event)
        self._describe()
        self.update()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Remove the highlight."""
        super().leaveEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint an arrow, the name and, at the right, the state behind its mark."""
        painter, sizes, theme = QPainter(self), RowSizes.of(self.font()), current_theme()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line = self.rect().adjusted(0, ABOVE_PX, 0, 0)
        painter.fillRect(QRect(0, ABOVE_PX // 2, self.width(), 1), QColor(theme.panel_border))
        self._paint_ground(painter, line)
        paint_arrow(
            painter, QPointF(LEFT_PX + sizes.tick / 2, line.center().y() + 1), theme.text, down=self.isChecked()
        )
        inside = line.adjusted(sizes.square, 0, -RIGHT_PX, 0)
        taken = self._paint_state(painter, inside, sizes)
        draw_elided(painter, inside.adjusted(0, 0, -taken, 0), self._heading.name, theme.text, font=sizes.bold)
        painter.end()

    def _paint_ground(self, painter: QPainter, line: QRect) -> None:
        option = QStyleOptionViewItem()
        option.initFrom(self)
        option.rect = line
        if not self.underMouse():
            option.state &= ~QStyle.StateFlag.State_MouseOver
        paint_row_background(painter, option)

    def _paint_state(self, painter: QPainter, inside: QRect, sizes: RowSizes) -> int:
        """Paint the state, as much of it as fits beside the name. Return the width that it takes."""
        heading, theme = self._heading, current_theme()
        side = sizes.small_line - 5
        name = min(sizes.width(heading.name, sizes.bold), inside.width() - MIN_NAME_PX)
        room = inside.width() - max(name, MIN_NAME_PX) - side - 2 * GAP_PX
        texts = (heading.words, heading.state)
        if not self.isChecked():
            folded = " · ".join(part for part in (heading.state, heading.devices) if part)
            texts = (folded, heading.devices or heading.state)
        text = next((each for each in texts if sizes.width(each) <= room), texts[-1])
        width = min(sizes.width(text), room)
        mark, words = (getattr(theme, each) for each in TONES[heading.tone])
        place = QRect(inside.right() - width, inside.top(), width + 1, inside.height())
        draw_elided(painter, place, text, words, font=sizes.small, right=True)
        box = QRectF(place.left() - side - 5, inside.center().y() - side / 2 + 0.5, side, side)
        paint_mark(painter, heading.mark, box, mark)
        return width + side + 5 + GAP_PX
