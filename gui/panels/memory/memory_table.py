"""The table of memory use: a bar with its numbers for each device."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPixmap, QResizeEvent
from PySide6.QtWidgets import QSizePolicy

from core.language import tr
from gui.style.formatting import fine_gigabytes, gigabytes
from gui.style.text_size import scaled
from gui.style.theme import Theme
from gui.viewmodels.devices.memory_bars import FREE, PARTS, TIPS, UNCLAIMED, MemoryBar
from gui.widgets.table import STRETCH, Column, RowsTable

from .memory_bar import MemoryBarDelegate, part_brushes, swatch

NAMES = ("this_run_bytes", "other_runs_bytes", "others_bytes", "unclaimed_bytes", "free_bytes")
"""The columns of `PARTS` in CSV."""
MIN_PX, NARROW_PX = 240, 560
"""Below `NARROW_PX` the column of unattributed memory is hidden: the bar needs the room."""


class MemoryTable(RowsTable[MemoryBar]):
    """As high as its rows. A square beside each number serves as the legend."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        super().__init__("memoryHolders", tr("Memory use of the devices"), self._make_columns(), key=lambda row: row.id)
        self._delegate = MemoryBarDelegate(theme, self)
        self.setItemDelegateForColumn(self.place("total_bytes"), self._delegate)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.offer("memoryTableMenu", "memory")
        self.model().layoutChanged.connect(self.updateGeometry)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._theme = theme
        self._delegate.set_theme(theme)
        super().set_theme(theme)

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
        brush = part_brushes(row.colour, self._theme)[part]
        border = self._theme.field_border if part == FREE else brush.color().name()
        return swatch(brush, border, max(self.devicePixelRatioF(), 1.0))


def _device_tip(row: MemoryBar) -> str:
    total = [] if row.total_bytes is None else [tr("{size} GB in total", size=gigabytes(row.total_bytes))]
    return tr(", ").join([row.id, *total])


def _spoken(row: MemoryBar) -> str:
    """Return the bar as text for a screen reader."""
    if row.words:
        return f"{row.label}: {row.words}"
    known = ((name, part) for name, part in zip(PARTS, row.parts, strict=True) if part is not None)
    parts = [f"{tr(name)} {fine_gigabytes(part)} GB" for name, part in known]
    return f"{row.label}: {tr(', ').join(parts)}"
