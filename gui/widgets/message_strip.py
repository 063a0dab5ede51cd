"""A message across the window, shown until it is dismissed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QToolButton, QWidget

from gui.style.icons import glyph, icon_size
from gui.widgets.plain_text import PlainLabel, verbatim

from .painting import paint_card

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from gui.style.theme import Theme

BELOW_PX = 8
"""Free space below a visible strip."""
MAX_CHARACTERS = 400
"""Maximum characters to show; the tooltip has the whole message."""
PASSING_MS = 6000
"""Milliseconds to show a passing message."""


class MessageStrip(QFrame):
    """Shows one message at a time. A dismissed message stays hidden until there is another."""

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
        self._text = PlainLabel()
        self._text.setWordWrap(True)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._details = QPushButton("Details")
        self._details.setProperty("compact", True)
        self._details.setAccessibleName("Show the details of this message")
        self._details.clicked.connect(self.details_asked)
        self._dismiss = QToolButton()
        self._dismiss.setAccessibleName("Dismiss this message")
        self._dismiss.setToolTip("Dismiss")
        self._dismiss.clicked.connect(self.hide)
        self._lay_out()
        self.set_theme(theme)
        self.hide()

    @property
    def text(self) -> str:
        """The whole message; the empty string if there is none."""
        return self._whole

    def show_message(
        self, text: str, tone: str = "warn", *, details: bool = False, details_text: str = "Details",
        is_new: bool = True,
    ) -> None:  # fmt: skip
        """Show a message (`tone`: good, warn, bad); the empty string removes it. An equal message changes nothing.

        `details`: whether it has a button, which reads `details_text`. A message that is not `is_new` updates an
        earlier one: if that was dismissed, it stays hidden.
        """
        self._passing.stop()
        if (text, tone, details) == (self._whole, self._tone, self._has_details):
            return
        self._whole, self._tone, self._has_details = text, tone, details
        short = " ".join(text.split())
        self._text.setText(short if len(short) <= MAX_CHARACTERS else short[:MAX_CHARACTERS] + " …")
        self._text.setToolTip(verbatim(text) if len(short) > MAX_CHARACTERS else "")
        self.setAccessibleName(short)
        self._details.setVisible(details)
        self._details.setText(details_text)
        self.setVisible(bool(text) and (is_new or not self.isHidden()))
        self.update()

    def show_passing(self, text: str) -> None:
        """Show a success message that disappears by itself."""
        self.show_message(text, "good")
        self._passing.start()

    def add_button(self, button: QPushButton) -> None:
        """Add a button left of the one that dismisses the message."""
        self._row.insertWidget(self._row.count() - 1, button)
        QWidget.setTabOrder(button, self._dismiss)  # same order as on the screen

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._theme = theme
        self._dismiss.setIconSize(icon_size())
        self._dismiss.setIcon(glyph("cross", theme.muted, theme.disabled))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the background in the tone of the message."""
        paint_card(self, getattr(self._theme, f"{self._tone}_soft"), getattr(self._theme, self._tone), below=BELOW_PX)

    def _lay_out(self) -> None:
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(14, 5, 6, 5 + BELOW_PX)
        self._row.setSpacing(10)
        self._row.addWidget(self._text, 1)
        self._row.addWidget(self._details)
        self._row.addWidget(self._dismiss)
