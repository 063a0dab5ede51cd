"""The speed-up of a scaling table as bars, each below the height that it would have without any loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from core.language import tr, tr_plural
from gui.style.text_size import scaled
from gui.style.theme import current_theme
from gui.widgets.painting import draw_elided, small_font

MIN_PX = QSize(320, 190)
MARGIN_PX = 12
MAX_BAR_PX = 64
WHISKER_PX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingBar:
    """One number of devices."""

    devices: int
    speed_up: float | None
    """Over one device; None if it is not known."""
    deviation: float | None
    """Over the repeats; None for one training."""


class ScalingPlot(QFrame):
    """A card with a bar for each number of devices."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("scalingPlot")
        self.setProperty("card", True)
        self.setAccessibleName(tr("Speed-up over one device"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.bars: tuple[ScalingBar, ...] = ()

    def show_bars(self, bars: Sequence[ScalingBar]) -> None:
        """Show these numbers of devices, the smallest first."""
        self.bars = tuple(bars)
        self.setAccessibleDescription(" ".join(_sentence(each) for each in self.bars))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return a size in which eight bars are legible."""
        return self.minimumSizeHint()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the least size with legible labels."""
        return QSize(scaled(MIN_PX.width()), scaled(MIN_PX.height()))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint the title, the bars and their labels."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        small, margin = small_font(self.font()), scaled(MARGIN_PX)
        row = painter.fontMetrics().height()
        inside = self.rect().adjusted(margin, margin // 2, -margin, -margin // 2)
        heading = QRect(inside.left(), inside.top(), inside.width(), row)
        draw_elided(painter, heading, tr("Speed-up over one device"), current_theme().text)
        draw_elided(painter, heading, tr("dashed: without any loss"), current_theme().muted, font=small, right=True)
        area = QRectF(inside.adjusted(0, 2 * row + 4, 0, -2 * row))
        if self.bars:
            self._paint_bars(painter, area, row)
        painter.end()

    def _paint_bars(self, painter: QPainter, area: QRectF, row: int) -> None:
        theme, step = current_theme(), area.width() / len(self.bars)
        highest = max(max(each.devices, (each.speed_up or 0) + (each.deviation or 0)) for each in self.bars)
        unit, width = area.height() / highest, min(scaled(MAX_BAR_PX), 0.6 * step)
        small = small_font(self.font())
        for at, bar in enumerate(self.bars):
            middle = area.left() + (at + 0.5) * step
            ideal = QRectF(middle - width / 2, area.bottom() - bar.devices * unit, width, bar.devices * unit)
            painter.setPen(QPen(QColor(theme.muted), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(ideal)
            top = ideal.top()
            if bar.speed_up is not None:
                drawn = QRectF(ideal.left(), area.bottom() - bar.speed_up * unit, width, bar.speed_up * unit)
                painter.fillRect(drawn, QColor(theme.accent))
                top = min(top, drawn.top())
                self._paint_whisker(painter, bar, middle, area.bottom(), unit)
            text = "–" if bar.speed_up is None else f"{bar.speed_up:.2f}"
            column = round(middle - step / 2)
            draw_centred(painter, QRect(column, round(top) - row - 2, round(step), row), text, theme.text)
            label = tr_plural("{count} device", "{count} devices", bar.devices)
            below = QRect(column, round(area.bottom()) + 2, round(step), row)
            painter.setFont(small)
            draw_centred(painter, below, label, theme.muted)
            if bar.speed_up is not None:
                share = f"{100 * bar.speed_up / bar.devices:.0f} %"
                draw_centred(painter, below.translated(0, row - 2), share, theme.muted)
            painter.setFont(self.font())
        painter.setPen(QPen(QColor(theme.panel_border), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())

    def _paint_whisker(self, painter: QPainter, bar: ScalingBar, middle: float, bottom: float, unit: float) -> None:
        """Paint the standard deviation over the repeats."""
        if bar.deviation is None or bar.speed_up is None:
            return
        painter.setPen(QPen(QColor(current_theme().text), 1))
        low, high = (bottom - (bar.speed_up + sign * bar.deviation) * unit for sign in (-1, 1))
        painter.drawLine(QPointF(middle, low), QPointF(middle, high))
        for y in (low, high):
            painter.drawLine(QPointF(middle - WHISKER_PX, y), QPointF(middle + WHISKER_PX, y))


def draw_centred(painter: QPainter, line: QRect, text: str, colour: str) -> None:
    """Draw one line of text in the middle."""
    painter.setPen(QColor(colour))
    painter.drawText(line, Qt.AlignmentFlag.AlignCenter, text)


def _sentence(bar: ScalingBar) -> str:
    if bar.speed_up is None:
        return tr_plural("{count} device: not known.", "{count} devices: not known.", bar.devices)
    return tr_plural("{count} device: {gain:.2f}.", "{count} devices: {gain:.2f}.", bar.devices, gain=bar.speed_up)
