"""The devices of one host below its heading. While it is not reachable: why, and a button to try again."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRect, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from core.language import tr
from gui.viewmodels.devices.device_groups import CpuSummary
from gui.viewmodels.devices.device_rows import DeviceRow
from gui.viewmodels.devices.host_headings import HostHeading
from gui.widgets.announcement import announce
from gui.widgets.plain_text import PlainLabel, verbatim
from gui.widgets.steady_button import SteadyButton

from .device_table import DeviceTable
from .host_header import HostHeader
from .row_sizes import GAP_PX, RowSizes

BELOW_PX = 6
"""Room below the text."""


class HostSection(QWidget):
    """One host. While it is folded, only the devices that are ticked are shown."""

    resized = Signal()
    """It needs another height."""
    folded = Signal()
    """The user has folded or unfolded it."""
    retry_asked = Signal(str)
    reached = Signal(QRect)
    """The keys have led to this part of it, which should be seen."""

    def __init__(self, heading: HostHeading) -> None:
        super().__init__()
        self.name = heading.name
        self.setObjectName(f"hostSection-{self.name}")
        self.header = HostHeader(heading)
        self.table = DeviceTable(self.name)
        self._note = PlainLabel()
        self._note.setObjectName(f"hostNote-{self.name}")
        self._note.setWordWrap(True)
        self._note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._note.setProperty("role", "small")
        self.retry = SteadyButton(tr("Try again"))
        self.retry.setObjectName(f"hostRetry-{self.name}")
        self.retry.setProperty("compact", True)
        self.retry.setAutoDefault(False)
        self.retry.setToolTip(tr("Ask this host again now"))
        self.retry.setAccessibleName(tr("Try to reach {host} again", host=self.name))
        self._text = QWidget()
        self._lay_out()
        self.header.toggled.connect(self._fold)
        self.header.focused.connect(lambda: self.reached.emit(self.header.geometry()))
        self.retry.clicked.connect(lambda: self.retry_asked.emit(self.name))
        self.table.resized.connect(self._take_height)
        self.table.reached.connect(lambda part: self.reached.emit(part.translated(self.table.pos())))
        self._show_note()

    def _lay_out(self) -> None:
        beside = QHBoxLayout()
        beside.addWidget(self.retry)
        beside.addStretch(1)
        text = QVBoxLayout(self._text)
        text.setSpacing(6)
        self._set_margins()
        text.addWidget(self._note)
        text.addLayout(beside)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for part in (self.header, self._text, self.table):
            layout.addWidget(part)

    def _set_margins(self) -> None:
        """Begin the text where the name begins."""
        layout = self._text.layout()
        assert layout is not None
        layout.setContentsMargins(RowSizes.of(self.font()).square, 0, GAP_PX, BELOW_PX)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the font."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._set_margins()

    @property
    def is_folded(self) -> bool:
        """Whether the devices that are not ticked are hidden."""
        return not self.header.isChecked()

    def fold(self, *, folded: bool) -> None:
        """Fold or unfold it."""
        self.header.setChecked(not folded)

    def show_host(self, heading: HostHeading, rows: Sequence[DeviceRow], cpus: CpuSummary) -> None:
        """Show the state of the host and its devices."""
        before = self.header.heading
        self.header.show_heading(heading)
        self.table.show_rows(rows)
        self.table.cpu_fold.show_summary(cpus)
        if (before.sentence, before.failed, before.may_retry) != (heading.sentence, heading.failed, heading.may_retry):
            self._show_note()
        if before.state != heading.state:
            announce(self.header, heading.accessible_text)

    def cuts(self, width: int) -> list[int]:
        """Return the heights at which nothing is cut in a section of this width, from its top."""
        cuts = [self.header.sizeHint().height()]
        if not self._text.isHidden():
            cuts.append(cuts[-1] + self._text.heightForWidth(width))
        if not self.table.isHidden():
            cuts += [cuts[-1] + each for each in self.table.cuts()]
        return cuts

    def _fold(self) -> None:
        self.table.show_only_ticked(only=self.is_folded)
        self._show_note()
        self.folded.emit()

    def _show_note(self) -> None:
        heading = self.header.heading
        self._note.setText(heading.sentence)
        self._note.setToolTip(verbatim(heading.sentence))
        self.retry.setVisible(heading.failed)
        self.retry.setEnabled(heading.may_retry)
        self._text.setHidden(self.is_folded or not heading.sentence)
        self._take_height()

    def _take_height(self) -> None:
        self.table.setVisible(self.table.has_shown_rows)
        self.table.setFixedHeight(self.table.sizeHint().height())
        self.resized.emit()
