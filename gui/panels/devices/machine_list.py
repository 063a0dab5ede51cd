"""The devices of this machine and, below them, of the hosts, which are scrolled together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent

    from .device_table import DeviceTable
    from .host_section import HostSection


class MachineList(QScrollArea):
    """Takes a table over from its layout, and gives it back when there is no host any more."""

    rewrapped = Signal()
    """It has another width, and may need another height."""

    def __init__(self, table: DeviceTable) -> None:
        super().__init__()
        self.setObjectName("machineList")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._table = table
        self._sections: list[HostSection] = []
        self._page = QWidget()
        self._column = QVBoxLayout(self._page)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(table)
        self._column.addStretch(1)
        self.setWidget(self._page)
        table.reached.connect(self._reveal_own)
        self.take_heights()

    def show_sections(self, sections: list[HostSection]) -> None:
        """Show these sections in this order; those that are not among them any more are deleted."""
        for gone in [each for each in self._sections if each not in sections]:
            gone.hide()
            gone.deleteLater()
        for place, section in enumerate(sections, 1):
            if section not in self._sections:
                section.reached.connect(lambda part, section=section: self._reveal(part, section))
            if self._column.indexOf(section) != place:
                self._column.insertWidget(place, section)
        self._sections = list(sections)

    def give_back(self) -> DeviceTable:
        """Return the table of this machine, which is in no layout any more."""
        self._table.reached.disconnect(self._reveal_own)
        self._column.removeWidget(self._table)
        self._table.setMinimumHeight(0)  # that of its own hint
        self.show_sections([])
        return self._table

    def take_heights(self) -> None:
        """Give each list the height of its rows."""
        self._table.setFixedHeight(self._table.sizeHint().height())
        self._page.updateGeometry()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height in which nothing has to be scrolled."""
        return QSize(self._table.sizeHint().width(), self.cuts()[-1])

    def cuts(self) -> list[int]:
        """Return the heights at which nothing is cut."""
        cuts, width = self._table.cuts(), self.viewport().width()
        for section in self._sections:
            above = cuts[-1]
            cuts += [above + each for each in section.cuts(width)]
        return cuts

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Let a wheel scroll by a row, and report another width: its texts are wrapped anew."""
        super().resizeEvent(event)
        self.verticalScrollBar().setSingleStep(self._table.verticalScrollBar().singleStep())
        if event.size().width() != event.oldSize().width():
            self.rewrapped.emit()

    def _reveal_own(self, part: QRect) -> None:
        self._reveal(part, self._table)

    def _reveal(self, part: QRect, widget: QWidget) -> None:
        """Scroll so that a part of a widget can be seen."""
        top = widget.mapTo(self._page, QPoint(0, part.top())).y()
        bar, room = self.verticalScrollBar(), self.viewport().height()
        if top < bar.value():
            bar.setValue(top)
        elif top + part.height() > bar.value() + room:
            bar.setValue(top + part.height() - room)
