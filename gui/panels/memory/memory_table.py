"""The table of memory use: a bar of parts for each device, and beside it their numbers, which are the legend."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPixmap, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStyledItemDelegate, QStyleOptionViewItem

from core.language import tr
from gui.style.device_colours import faint
from gui.style.formatting import fine_gigabytes, gigabytes
from gui.style.text_size import scaled
from gui.style.theme import Theme, current_theme
from gui.viewmodels.devices.memory_bars import FREE, OTHER_RUNS, OTHERS, PARTS, THIS_RUN, TIPS, UNCLAIMED, MemoryBar
from gui.widgets.painting import Index, draw_elided, outline
from gui.widgets.table import ROW, STRETCH, Column, RowsTable

NAMES = ("this_run_bytes", "other_runs_bytes", "others_bytes", "unclaimed_bytes", "free_bytes")
"""The columns of `PARTS` in CSV."""
MIN_PX, NARROW_PX = 240, 560
"""Below `NARROW_PX` the column of unattributed memory is hidden: the bar needs the room."""
BAR_PX, ROUND_PX, SWATCH_PX, GAP_PX, SIDE_PX = 10, 3, 9, 1, 6
PALE = 0.45
"""Share of the device's colour in the colour of other runs on it."""


class MemoryTable(RowsTable[MemoryBar]):
    """As high as its rows. A square beside each number serves as the legend."""

    def __init__(self) -> None:
        super().__init__("memoryHolders", tr("Memory use of the devices"), self._make_columns(), key=lambda row: row.id)
        self._delegate = MemoryBarDelegate(self)
        self.setItemDelegateForColumn(self.place("total_bytes"), self._delegate)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.offer("memoryTableMenu", "memory")
        for changed in (self.model().rowsInserted, self.model().rowsRemoved):
            changed.connect(lambda *_: self.updateGeometry())

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows."""
        return QSize(MIN_PX, self.height_of_rows())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows: the surrounding area scrolls."""
        return self.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide a column if there is little room."""
        super().resizeEvent(event)
        self.setColumnHidden(self.place(NAMES[UNCLAIMED]), event.size().width() < scaled(NARROW_PX))

    def _make_columns(self) -> tuple[Column[MemoryBar], ...]:
        return (
            Column("device", lambda row: row.id, None),
            Column("label", lambda row: row.label, tr("Device"), tip=_device_tip),
            Column("total_bytes", lambda row: row.total_bytes, tr("Memory, GB"),
                   lambda row: row.words or fine_gigabytes(row.total_bytes), tip=_spoken, spoken=_spoken,
                   width_px=STRETCH),
            *(self._part(at, name) for at, name in enumerate(NAMES)),
            Column("note", lambda row: row.words or None, None),
        )  # fmt: skip

    def _part(self, at: int, name: str) -> Column[MemoryBar]:
        return Column(
            name, lambda row: row.parts[at], tr(PARTS[at]), lambda row: fine_gigabytes(row.parts[at]),
            tip=lambda _: tr(TIPS[at]), icon=lambda row: self._swatch(row, at), about=tr(TIPS[at]),
            heading_px=11,
        )  # fmt: skip

    def _swatch(self, row: MemoryBar, part: int) -> QPixmap | None:
        if row.parts[part] is None:
            return None
        return swatch(row.colour, part, current_theme(), max(self.devicePixelRatioF(), 1.0))


def _device_tip(row: MemoryBar) -> str:
    total = [] if row.total_bytes is None else [tr("{size} GB in total", size=gigabytes(row.total_bytes))]
    return tr(", ").join([row.id, *total])


def _spoken(row: MemoryBar) -> str:
    """Return the bar as text, for its tooltip and for a screen reader."""
    if row.words:
        return f"{row.label}: {row.words}"
    known = ((name, part) for name, part in zip(PARTS, row.parts, strict=True) if part is not None)
    parts = [f"{tr(name)} {fine_gigabytes(part)} GB" for name, part in known]
    return f"{row.label}: {tr(', ').join(parts)}"


class MemoryBarDelegate(QStyledItemDelegate):
    """Paints the bar of a row, or its text if there is no bar."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        row: MemoryBar = index.data(ROW)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inside = QRectF(option.rect).adjusted(SIDE_PX, 0, -SIDE_PX, 0)
        if row.words:
            draw_elided(painter, inside.toRect(), row.words, current_theme().muted)
        else:
            inside.setTop(inside.center().y() - BAR_PX / 2)
            inside.setHeight(BAR_PX)
            self._paint_parts(painter, inside, row)
        painter.restore()

    def _paint_parts(self, painter: QPainter, bar: QRectF, row: MemoryBar) -> None:
        shape = QPainterPath()
        shape.addRoundedRect(bar, ROUND_PX, ROUND_PX)
        painter.setClipPath(shape)
        painter.fillRect(bar, QColor(part_brushes(row.colour)[FREE].color()))
        left = bar.left()
        for share, brush in zip(row.shares[:FREE], part_brushes(row.colour), strict=False):
            width = share * bar.width()
            if width > 0:
                width = max(width, 2.0)  # make small parts visible
                painter.fillRect(QRectF(left, bar.top(), max(width - GAP_PX, 1.0), bar.height()), brush)
                left += width
        painter.strokePath(shape, outline(current_theme().field_border))


def part_brushes(colour: str) -> tuple[QBrush, ...]:
    """Return the brush of each of `PARTS` for a device of this colour."""
    brushes = [QBrush()] * len(PARTS)
    theme = current_theme()
    brushes[THIS_RUN] = QBrush(QColor(colour))
    brushes[OTHER_RUNS] = QBrush(QColor(faint(colour, theme, PALE)))
    brushes[OTHERS] = QBrush(QColor(theme.muted))
    brushes[UNCLAIMED] = QBrush(QColor(theme.disabled), Qt.BrushStyle.Dense4Pattern)
    brushes[FREE] = QBrush(QColor(theme.field if theme.is_dark else theme.button_hover))
    return tuple(brushes)


@cache
def swatch(colour: str, part: int, theme: Theme, scale: float) -> QPixmap:
    """Return a square for the legend of one of `PARTS` of a device; `scale`: device pixels per pixel."""
    brush = part_brushes(colour)[part]
    border = theme.field_border if part == FREE else brush.color().name()
    side = round(SWATCH_PX * scale)
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.scale(scale, scale)
    painter.fillRect(QRectF(0, 0, SWATCH_PX, SWATCH_PX), brush)
    painter.setPen(QColor(border))
    painter.drawRect(QRectF(0.5, 0.5, SWATCH_PX - 1, SWATCH_PX - 1))
    painter.end()
    pixmap.setDevicePixelRatio(scale)
    return pixmap
