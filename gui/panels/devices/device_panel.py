"""The device list below a banner for driver problems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from gui.widgets.plain_text import PlainLabel, verbatim

from .device_table import DeviceTable

if TYPE_CHECKING:
    from gui.style.theme import Theme

MAX_CHARACTERS = 240
"""Maximum characters of the banner; the tooltip has the whole text."""
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])")


class DevicePanel(QWidget):
    """Shows the banner only while there is a problem."""

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

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the banner and all rows."""
        rows = self.table.sizeHint()
        above = 0 if self.banner.isHidden() else self.banner.heightForWidth(max(self.width(), rows.width()))
        return QSize(rows.width(), rows.height() + above)

    def show_banner(self, sentence: str | None) -> None:
        """Show a text in the banner; None hides it."""
        whole = sentence or ""
        if whole == self._whole:
            return
        self._whole = whole
        self.banner.setText(digest(whole))
        self.banner.setToolTip(verbatim(whole))
        self.banner.setVisible(bool(whole))


def digest(whole: str) -> str:
    """Shorten a text to whole sentences. Of repeated sentences, such as advice, keep the last; count the rest."""
    sentences = BETWEEN_SENTENCES.split(" ".join(whole.split()))
    once = [each for number, each in enumerate(sentences) if each not in sentences[number + 1 :]]
    shown = [each for number, each in enumerate(once) if not number or _length(once[: number + 1]) <= MAX_CHARACTERS]
    left = len(once) - len(shown)
    return " ".join([*shown, *([f"And {left} more: see the tooltip."] if left else [])])


def _length(sentences: list[str]) -> int:
    return len(" ".join(sentences))
