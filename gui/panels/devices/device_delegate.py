"""The painting of a device: tick, colour, name, status, utilisation and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from gui.widgets.painting import Index, draw_elided, paint_row_background, small_font

if TYPE_CHECKING:
    from PySide6.QtCore import QAbstractItemModel

    from gui.style.theme import Theme
    from gui.viewmodels.devices.device_rows import DeviceRow

ROW = Qt.ItemDataRole.UserRole + 1
"""Item data: the `DeviceRow`."""
OBSTACLE = Qt.ItemDataRole.UserRole + 2
"""Item data: why the device cannot be ticked; the empty string if it can."""

HEIGHT_PX, DENSE_HEIGHT_PX = 70, 48
LINE_PX = 21
TICK_PX, SQUARE_PX, BAR_PX = 16, 8, 6
LEFT_PX, NAME_PX, RIGHT_PX = 8, 56, 8
READING_PX = 106
"""Room for `111.1 / 128 GB` right of a bar."""
PERCENT_PX = 54
MIN_NAME_PX = 40  # hide a name with less room

REASON_FLAGS = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap)


class DeviceDelegate(QStyledItemDelegate):
    """Paints a row in three lines, or in two if `dense`. A click in the row or Space ticks it."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.dense = False

    @property
    def height(self) -> int:
        """Height of a row in pixels."""
        return DENSE_HEIGHT_PX if self.dense else HEIGHT_PX

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002, N802 (Qt's name)
        """Return the same size for all rows."""
        return QSize(240, self.height)

    def editorEvent(  # noqa: N802 (Qt's name)
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        """Tick or untick."""
        if not _toggles(event, option.rect) or not index.flags() & Qt.ItemFlag.ItemIsUserCheckable:
            return False
        ticked = _is_ticked(index)
        after = Qt.CheckState.Unchecked if ticked else Qt.CheckState.Checked
        return model.setData(index, after, Qt.ItemDataRole.CheckStateRole)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        row: DeviceRow | None = index.data(ROW)
        if row is None:
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect: QRect = option.rect
        paint_row_background(painter, option, self._theme)
        self._paint_tick(painter, option, index, rect)
        self._paint_title(painter, row, rect)
        obstacle = str(index.data(OBSTACLE) or "")
        in_use = bool(row.held_by or row.used_by)
        if obstacle and not row.lost and (row.blocked or (row.is_mig and not in_use)):
            self._paint_reason(painter, without_label(row.label, obstacle), rect)
        elif self.dense:
            self._paint_dense(painter, row, rect)
        else:
            self._paint_roomy(painter, row, rect)
        painter.restore()

    def _paint_tick(self, painter: QPainter, option: QStyleOptionViewItem, index: Index, rect: QRect) -> None:
        box = QRectF(rect.left() + LEFT_PX, rect.top() + 6 + (LINE_PX - TICK_PX) / 2, TICK_PX, TICK_PX)
        ticked = _is_ticked(index)
        free = bool(index.flags() & Qt.ItemFlag.ItemIsUserCheckable)
        theme = self._theme
        over = bool(option.state & QStyle.StateFlag.State_MouseOver)
        border = theme.accent if ticked or (over and free) else theme.muted if free else theme.panel_border
        painter.setPen(QPen(QColor(border), 1))
        painter.setBrush(QColor(theme.accent if ticked else theme.field if free else theme.button))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        if ticked:
            pen = QPen(
                QColor(theme.on_accent), 2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin
            )
            painter.setPen(pen)
            corner = box.topLeft()
            painter.drawPolyline([corner + QPointF(*at) for at in ((4.2, 8.2), (7, 11), (11.8, 5.2))])

    def _paint_title(self, painter: QPainter, row: DeviceRow, rect: QRect) -> None:
        theme = self._theme
        top = rect.top() + 6
        off = bool(row.lost or row.blocked)
        square = QRectF(rect.left() + 36, top + (LINE_PX - SQUARE_PX) / 2, SQUARE_PX, SQUARE_PX)
        painter.fillRect(square, QColor(theme.disabled if off else row.colour))
        line = QRect(rect.left() + NAME_PX, top, rect.width() - NAME_PX - RIGHT_PX, LINE_PX)
        tone = getattr(theme, row.urgent or "muted")
        side = row.status.removeprefix("blocked · ") or row.temperature_and_power
        label = _bold(painter.font())
        label_width = _width(painter, row.label, label) + 10
        small = small_font(painter.font())
        side_width = min(_width(painter, side, small) + 10 if side else 0, line.width() - label_width)
        draw_elided(painter, line, row.label, theme.muted if off else theme.text, font=label)
        name = line.adjusted(label_width, 0, -side_width, 0)
        if name.width() >= MIN_NAME_PX:
            draw_elided(painter, name, row.name, theme.muted if off or row.status else theme.text)
        draw_elided(painter, line.adjusted(line.width() - side_width + 8, 0, 0, 0), side, tone, font=small, right=True)

    def _paint_reason(self, painter: QPainter, reason: str, rect: QRect) -> None:
        """Paint why the device cannot be ticked, in place of the bars and in as many lines as fit."""
        before = painter.font()
        painter.setFont(small_font(before))
        top = rect.top() + 4 + LINE_PX
        room = QRect(rect.left() + 36, top, rect.width() - 36 - RIGHT_PX, rect.bottom() - top - 2)
        painter.setPen(QColor(self._theme.muted))
        if self.dense:
            shown = painter.fontMetrics().elidedText(reason, Qt.TextElideMode.ElideRight, room.width())
        else:
            shown = _fit_text(painter, reason, room)
        painter.drawText(room, REASON_FLAGS, shown)
        painter.setFont(before)

    def _paint_roomy(self, painter: QPainter, row: DeviceRow, rect: QRect) -> None:
        left, right = rect.left() + 36, rect.right() - RIGHT_PX
        width = right - left - READING_PX
        for number, (fraction, text, colour) in enumerate(self._readings(row)):
            top = rect.top() + 6 + LINE_PX * (number + 1)
            self._paint_bar(painter, QRect(left, top, width, LINE_PX), fraction, colour)
            draw_elided(painter, QRect(left + width + 12, top, READING_PX - 12, LINE_PX), text, self._theme.muted)

    def _paint_dense(self, painter: QPainter, row: DeviceRow, rect: QRect) -> None:
        left, top = rect.left() + 36, rect.top() + 4 + LINE_PX
        bars = rect.right() - RIGHT_PX - left - PERCENT_PX - READING_PX
        spans = ((left, bars // 2, PERCENT_PX), (left + bars // 2 + PERCENT_PX, bars - bars // 2, READING_PX))
        for (fraction, text, colour), (begin, width, room) in zip(self._readings(row), spans, strict=True):
            self._paint_bar(painter, QRect(begin, top, width, LINE_PX), fraction, colour)
            draw_elided(painter, QRect(begin + width + 8, top, room - 8, LINE_PX), text, self._theme.muted)

    def _readings(self, row: DeviceRow) -> tuple[tuple[float | None, str, str], tuple[float | None, str, str]]:
        busy = None if row.lost or row.utilisation_percent is None else row.utilisation_percent / 100
        colour = self._theme.disabled if row.lost else row.colour
        return (busy, row.utilisation, colour), (row.memory_fraction, row.memory, self._theme.disabled)

    def _paint_bar(self, painter: QPainter, line: QRect, fraction: float | None, colour: str) -> None:
        track = QRectF(line.left(), line.center().y() - BAR_PX / 2 + 1, line.width(), BAR_PX)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.field if self._theme.name == "dark" else self._theme.button))
        painter.drawRoundedRect(track, BAR_PX / 2, BAR_PX / 2)
        if fraction:
            track.setWidth(max(track.width() * min(fraction, 1.0), BAR_PX))
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(track, BAR_PX / 2, BAR_PX / 2)


def without_label(label: str, sentence: str) -> str:
    """Drop the label from a sentence shown beside it: `GPU 0 is hidden by ...` becomes `Hidden by ...`."""
    rest = sentence.removeprefix(f"{label} is ")
    return f"{rest[:1].upper()}{rest[1:]}"


def _is_ticked(index: Index) -> bool:
    # The model returns a number or a member of the enumeration.
    return Qt.CheckState(index.data(Qt.ItemDataRole.CheckStateRole)) is Qt.CheckState.Checked


def _toggles(event: QEvent, rect: QRect) -> bool:
    if isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonRelease:
        return event.button() == Qt.MouseButton.LeftButton and rect.contains(event.position().toPoint())
    if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
        return event.key() in {Qt.Key.Key_Space, Qt.Key.Key_Select}
    return False


def _fit_text(painter: QPainter, text: str, room: QRect) -> str:
    """Cut a wrapped text to the room, with an ellipsis."""
    words, cut = text.split(), ""
    while (
        words and painter.fontMetrics().boundingRect(room, REASON_FLAGS, " ".join(words) + cut).height() > room.height()
    ):
        words.pop()
        cut = " …"
    return " ".join(words) + cut


def _bold(font: QFont) -> QFont:
    bold = QFont(font)
    bold.setBold(True)
    return bold


def _width(painter: QPainter, text: str, font: QFont | None = None) -> int:
    before = painter.font()
    painter.setFont(font or before)
    width = painter.fontMetrics().horizontalAdvance(text)
    painter.setFont(before)
    return width
