"""The devices, below what their drivers have to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from .devices import DeviceTable

if TYPE_CHECKING:
    from gui.theme import Theme

MOST_CHARACTERS = 220


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
        self.banner.setText(whole if len(whole) <= MOST_CHARACTERS else whole[:MOST_CHARACTERS] + " …")
        self.banner.setToolTip(whole)
        self.banner.setVisible(bool(whole))
