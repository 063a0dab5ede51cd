"""The card of devices: what is wrong with the driver, the list, and buttons that tick several devices."""

from __future__ import annotations

import re

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from core.language import join_sentences, tr
from gui.features.devices.view import DeviceView
from gui.machine.chosen_devices import ChosenDevices
from gui.machine.device_rows import all_together, free_devices
from gui.widgets.buttons import compact_button
from gui.widgets.plain_text import PlainLabel, verbatim

MAX_CHARACTERS = 240
"""Maximum characters of the banner; the tooltip has the whole text."""
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])|(?<=[。！？])")


class DevicePanel(QWidget):
    """Shows the banner only while there is a problem."""

    resized = Signal()
    """It needs another height."""
    cpus_chosen = Signal()
    """`shows_cpus` has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen = ChosenDevices()
        self.table = DeviceView(self.chosen)
        self.shows_cpus = True
        """Whether CPU devices are listed where there are GPUs, and not only those that are ticked."""
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

    def show_cpus(self, *, shown: bool) -> None:
        """List CPU devices where there are GPUs, or only those that are ticked."""
        if shown is not self.shows_cpus:
            self.shows_cpus = shown
            self.cpus_chosen.emit()

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

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the banner and all lines."""
        lines = self.table.sizeHint()
        return QSize(lines.width(), lines.height() + self._banner_px())

    def whole_rows_px(self, room: int) -> int:
        """Return the largest height, at most `room`, in which no line is cut."""
        above = self._banner_px()
        return above + self.table.whole_lines_px(room - above)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show whole lines only."""
        super().resizeEvent(event)
        self._fit()

    def _take_height(self) -> None:
        self._fit()
        self.updateGeometry()
        self.resized.emit()

    def _fit(self) -> None:
        room = max(self.height(), self.minimumSizeHint().height())
        self.table.setMaximumHeight(self.table.whole_lines_px(room - self._banner_px()))

    def _banner_px(self) -> int:
        width = max(self.width(), self.table.sizeHint().width())
        return 0 if self.banner.isHidden() else self.banner.heightForWidth(width)

    def _tick_bar(self) -> QWidget:
        bar = QWidget()
        layout = QHBoxLayout(bar)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(_small(tr("tick:")))
        for number, (title, name, tip, ids) in enumerate((
            (tr("free"), "tickFree", tr("Tick what nothing uses on this machine, and no others"), free_devices),
            (tr("all"), "tickAll", tr("Tick all GPUs of this machine, or its CPU devices"), all_together),
            (tr("none"), "tickNone", tr("Untick all devices"), lambda _: ()),
        )):
            if number:
                layout.addWidget(_small("·"))
            button = compact_button(name, title, tip, role="flat", spoken=tr("Tick {which}", which=title))
            button.clicked.connect(lambda _=False, ids=ids: self.chosen.tick_only(ids(self.chosen.rows_of())))
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
