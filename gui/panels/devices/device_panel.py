"""The device list below a banner for driver problems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from core.language import join_sentences, tr
from gui.viewmodels.devices.device_rows import all_together, free_devices
from gui.widgets.compact import compact_button
from gui.widgets.plain_text import PlainLabel, verbatim

from .device_table import DeviceTable

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent

    from gui.style.theme import Theme

MAX_CHARACTERS = 240
"""Maximum characters of the banner; the tooltip has the whole text."""
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])|(?<=[。！？])")


class DevicePanel(QWidget):
    """Shows the banner only while there is a problem."""

    resized = Signal()
    """It needs another height."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.table = DeviceTable(theme)
        self._whole = ""
        """The whole text of the banner."""
        self.banner = PlainLabel()
        self.banner.setObjectName("driverBanner")
        self.banner.setProperty("tone", "warn")
        self.banner.setWordWrap(True)
        self.banner.setContentsMargins(8, 0, 8, 6)
        self.banner.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.banner.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banner)
        layout.addWidget(self.table)
        layout.addStretch(1)
        self.tick_bar = self._tick_bar()
        """`tick: free · all · none`, for the heading of the card."""
        self.table.resized.connect(self._take_height)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the banner and all rows."""
        rows = self.table.sizeHint()
        return QSize(rows.width(), rows.height() + self._banner_px())

    def show_banner(self, sentence: str | None) -> None:
        """Show a text in the banner; None hides it."""
        whole = sentence or ""
        if whole == self._whole:
            return
        self._whole = whole
        self.banner.setText(digest(whole))
        self.banner.setToolTip(verbatim(whole))
        self.banner.setVisible(bool(whole))
        self._take_height()

    def whole_rows_px(self, room: int) -> int:
        """Return the largest height, at most `room`, in which no row is cut."""
        above = self._banner_px()
        return above + self.table.whole_rows_px(room - above)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show whole rows only."""
        super().resizeEvent(event)
        self._fit()

    def _take_height(self) -> None:
        self._fit()
        self.resized.emit()

    def _fit(self) -> None:
        self.table.setMaximumHeight(
            self.whole_rows_px(max(self.height(), self.minimumSizeHint().height())) - self._banner_px()
        )

    def _banner_px(self) -> int:
        width = max(self.width(), self.table.sizeHint().width())
        return 0 if self.banner.isHidden() else self.banner.heightForWidth(width)

    def _tick_bar(self) -> QWidget:
        bar = QWidget()
        layout = QHBoxLayout(bar)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(_small(tr("tick:")))
        for number, (title, name, tip, chosen) in enumerate((
            (tr("free"), "tickFree", tr("Tick the devices that nothing uses, and no others"), free_devices),
            (tr("all"), "tickAll", tr("Tick all GPUs, or all CPU devices where there is no GPU"), all_together),
            (tr("none"), "tickNone", tr("Untick all devices"), lambda _: ()),
        )):  # fmt: skip
            if number:
                layout.addWidget(_small("·"))
            button = compact_button(name, title, tip, role="flat", spoken=tr("Tick {which}", which=title))
            button.clicked.connect(lambda _=False, chosen=chosen: self.table.tick_only(chosen(self.table.rows)))
            layout.addWidget(button)
        return bar


def digest(whole: str) -> str:
    """Shorten a text to whole sentences. Of repeated sentences, such as advice, keep the last; count the rest."""
    sentences = BETWEEN_SENTENCES.split(" ".join(whole.split()))
    once = [each for number, each in enumerate(sentences) if each not in sentences[number + 1 :]]
    shown = [each for number, each in enumerate(once) if not number or _length(once[: number + 1]) <= MAX_CHARACTERS]
    left = len(once) - len(shown)
    return join_sentences([*shown, *([tr("And {count} more: see the tooltip.", count=left)] if left else [])])


def _length(sentences: list[str]) -> int:
    return len(" ".join(sentences))


def _small(text: str) -> PlainLabel:
    label = PlainLabel(text)
    label.setProperty("role", "small")
    return label
