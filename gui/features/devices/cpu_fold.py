"""The line of the CPU devices below the GPUs: their load and the memory of the machine. A click unfolds them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEvent, QPointF, QRect, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QFocusEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QStyle, QStyleOptionViewItem, QWidget

from core.language import tr
from gui.base.formatting import memory_size
from gui.base.painting import draw_elided, paint_row_background
from gui.base.theme import current_theme
from gui.features.devices.delegate import GAP_PX, LEFT_PX, RIGHT_PX, RowSizes
from gui.machine.device_rows import CpuSummary
from gui.widgets.plain_text import verbatim


class CpuFold(QAbstractButton):
    """Checked while the CPU devices are unfolded."""

    focused = Signal()

    def __init__(self, parent: QWidget, host: str = "") -> None:
        """`host`: the machine; the empty string for this machine."""
        super().__init__(parent)
        self.setObjectName(f"cpuFold-{host}" if host else "cpuFold")
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.runs_root: Path | None = None
        """The folder of runs, whose free disk space is in the tooltip."""
        self._summary = CpuSummary()

    @property
    def summary(self) -> CpuSummary:
        """What is shown."""
        return self._summary

    def show_summary(self, summary: CpuSummary) -> None:
        """Show what the CPU devices do."""
        before, self._summary = self._summary, summary
        if (before.devices, before.host_memory) != (summary.devices, summary.host_memory):
            if not self.hasFocus():  # a screen reader would read out each change
                self.setAccessibleName(summary.accessible_text)
            self.update()

    def event(self, event: QEvent) -> bool:
        """Measure the free disk space when the tooltip is asked for."""
        if event.type() == QEvent.Type.ToolTip:
            self.setToolTip(verbatim(self.tip()))
        return super().event(event)

    def tip(self) -> str:
        """Return the tooltip."""
        does = tr("Hide the CPU devices that are not ticked") if self.isChecked() else tr("Show the CPU devices")
        host = self._summary.host_memory
        lines = (
            does,
            tr("CPU: {devices}", devices=self._summary.devices),
            f"{host[:1].upper()}{host[1:]}",
            self._disk(),
        )
        return "\n".join(line for line in lines if line)

    def _disk(self) -> str:
        if self.runs_root is None:
            return ""
        folders = (self.runs_root, *self.runs_root.parents)
        try:
            free = memory_size(shutil.disk_usage(next(each for each in folders if each.exists())).free)
        except OSError:
            return tr("Free disk space of {folder}: unknown", folder=self.runs_root)
        return tr("Free disk space of {folder}: {size}", folder=self.runs_root, size=free)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Give the present values to a screen reader, and scroll the line into view."""
        self.setAccessibleName(self._summary.accessible_text)
        super().focusInEvent(event)
        self.focused.emit()
        self.setAccessibleDescription(self.tip())

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Highlight the line."""
        super().enterEvent(event)
        self.update()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Remove the highlight."""
        super().leaveEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint an arrow, the load at the left and the memory at the right."""
        painter, sizes, theme = QPainter(self), RowSizes.of(self.font()), current_theme()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        option = QStyleOptionViewItem()
        option.initFrom(self)
        option.rect = self.rect()
        if not self.underMouse():
            option.state &= ~QStyle.StateFlag.State_MouseOver
        paint_row_background(painter, option)
        paint_arrow(painter, QPointF(LEFT_PX + sizes.tick / 2, self.height() / 2), theme.muted, down=self.isChecked())
        line = QRect(sizes.square, 0, self.width() - sizes.square - RIGHT_PX, self.height())
        draw_elided(painter, line, "CPU", theme.text, font=sizes.bold)
        rest = line.adjusted(sizes.width("CPU", sizes.bold) + GAP_PX, 0, 0, 0)
        devices, host = self._summary.devices, self._summary.host_memory
        draw_elided(painter, rest, devices, theme.muted, font=sizes.small)
        widest = replace(self._summary, utilisation_percent=100.0, host_used_bytes=self._summary.host_total_bytes)
        left = rest.width() - sizes.width(widest.devices) - GAP_PX  # by the widest, so that words do not come and go
        if sizes.width(widest.host_memory) > left:
            short = widest.host_memory.removeprefix("host ")
            host = host.removeprefix("host ") if sizes.width(short) <= left else self._summary.memory
        room = rest.adjusted(sizes.width(devices) + GAP_PX - 1, 0, 0, 0)
        draw_elided(painter, room, host, theme.muted, font=sizes.small, right=True)
        painter.end()


def paint_arrow(painter: QPainter, middle: QPointF, colour: str, *, down: bool) -> None:
    """Paint the arrow of a part that is unfolded (`down`) or folded."""
    pen = QPen(QColor(colour), 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    folded, unfolded = ((-2, -4), (2, 0), (-2, 4)), ((-4, -2), (0, 2), (4, -2))
    painter.drawPolyline([middle + QPointF(x, y) for x, y in (unfolded if down else folded)])
