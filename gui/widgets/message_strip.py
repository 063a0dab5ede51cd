"""A message across the window: what went wrong or should be known, until it is put away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QWidget

from gui.style.icons import glyph

from .card import paint_card

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from gui.style.theme import Theme

BELOW_PX = 8
"""Free below the strip, which is not there when nothing is said."""
MAX_CHARACTERS = 400
"""More would push the plots out of sight; the tooltip has all of it."""
PASSING_MS = 6000
"""Long enough to be read."""


class MessageStrip(QFrame):
    """Shows one message at a time. One that was put away stays away until there is another."""

    details_asked = Signal()

    def __init__(self, name: str, theme: Theme) -> None:
        super().__init__()
        self.setObjectName(name)
        self._theme = theme
        self._whole, self._tone, self._has_details = "", "warn", False
        self._passing = QTimer(self)
        self._passing.setSingleShot(True)
        self._passing.setInterval(PASSING_MS)
        self._passing.timeout.connect(lambda: self.show_message(""))
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._details = QPushButton("Details")
        self._details.setProperty("compact", True)
        self._details.setAccessibleName("Show the details of this message")
        self._details.clicked.connect(self.details_asked)
        self._away = QToolButton()
        self._away.setAccessibleName("Put this message away")
        self._away.setToolTip("Put this message away")
        self._away.setIconSize(QSize(12, 12))
        self._away.clicked.connect(self.hide)
        self._lay_out()
        self.set_theme(theme)
        self.hide()

    @property
    def text(self) -> str:
        """The message, whole; empty when there is none."""
        return self._whole

    def show_message(self, text: str, tone: str = "warn", *, details: bool = False, anew: bool = True) -> None:
        """Show a message (`tone`: good, warn, bad); no text takes it back. The same one again changes nothing.

        One that is not `anew` only goes on telling of what was told before: put away, it stays away.
        """
        self._passing.stop()
        if (text, tone, details) == (self._whole, self._tone, self._has_details):
            return
        self._whole, self._tone, self._has_details = text, tone, details
        short = " ".join(text.split())
        self._text.setText(short if len(short) <= MAX_CHARACTERS else short[:MAX_CHARACTERS] + " …")
        self._text.setToolTip(text if len(short) > MAX_CHARACTERS else "")
        self.setAccessibleName(short)
        self._details.setVisible(details)
        self.setVisible(bool(text) and (anew or not self.isHidden()))
        self.update()

    def show_passing(self, text: str) -> None:
        """Say that something went well; it is taken back by itself."""
        self.show_message(text, "good")
        self._passing.start()

    def add_button(self, button: QPushButton) -> None:
        """Something that can be done about it, left of what puts the message away."""
        self._row.insertWidget(self._row.count() - 1, button)
        QWidget.setTabOrder(button, self._away)  # the keyboard goes the way that the eye does

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme
        self._away.setIcon(glyph("cross", theme.muted, theme.disabled))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """The ground, in the message's tone."""
        paint_card(self, getattr(self._theme, f"{self._tone}_soft"), getattr(self._theme, self._tone), below=BELOW_PX)

    def _lay_out(self) -> None:
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(14, 5, 6, 5 + BELOW_PX)
        self._row.setSpacing(10)
        self._row.addWidget(self._text, 1)
        self._row.addWidget(self._details)
        self._row.addWidget(self._away)
