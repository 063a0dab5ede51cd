"""The devices, below what their drivers have to say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from .device_table import DeviceTable

if TYPE_CHECKING:
    from gui.style.theme import Theme

MAX_CHARACTERS = 240
"""More would push the devices out of sight; the tooltip has all of it."""
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])")


class DevicePanel(QWidget):
    """The banner is there only while there is something to say."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.table = DeviceTable(theme)
        self.banner = QLabel()
        self.banner.setObjectName("driverBanner")
        self.banner.setProperty("tone", "warn")
        self.banner.setTextFormat(Qt.TextFormat.PlainText)
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

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """As high as the banner, at the width there is, and all rows."""
        rows = self.table.sizeHint()
        above = 0 if self.banner.isHidden() else self.banner.heightForWidth(max(self.width(), rows.width()))
        return QSize(rows.width(), rows.height() + above)

    def show_banner(self, sentence: str | None) -> None:
        """Say this; None takes it back."""
        whole = sentence or ""
        if whole == self.banner.toolTip():
            return
        self.banner.setText(digest(whole))
        self.banner.setToolTip(whole)
        self.banner.setVisible(bool(whole))


def digest(whole: str) -> str:
    """What drivers have to say, in whole sentences, each once: where it was said last, as advice for several troubles.

    What does not fit is counted.
    """
    sentences = BETWEEN_SENTENCES.split(" ".join(whole.split()))
    once = [each for number, each in enumerate(sentences) if each not in sentences[number + 1 :]]
    shown = [each for number, each in enumerate(once) if not number or _length(once[: number + 1]) <= MAX_CHARACTERS]
    left = len(once) - len(shown)
    return " ".join([*shown, *([f"And {left} more: see the tooltip."] if left else [])])


def _length(sentences: list[str]) -> int:
    return len(" ".join(sentences))
