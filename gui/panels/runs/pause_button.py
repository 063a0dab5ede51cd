"""The button that pauses a run, and resumes one that can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QPushButton

from gui.style.icons import GAP_PX, SIDE_PX, glyph

if TYPE_CHECKING:
    from gui.style.theme import Theme
    from gui.viewmodels.run.pause_button import PauseButtonState

KEYS = "Ctrl+P"
LONGEST = "Pausing…"


class PauseButton(QPushButton):
    """Shows a state of `gui.viewmodels.run.pause_button`. Its width fits the longest text, so that nothing moves."""

    pause_asked = Signal()
    resume_asked = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__(LONGEST)
        self.setObjectName("pauseButton")
        self.setIconSize(QSize(SIDE_PX + GAP_PX, SIDE_PX))
        self._theme = theme
        self._resumes: bool | None = None
        self.clicked.connect(self._pressed)

    def show_face(self, face: PauseButtonState) -> None:
        """What the button says and does, if anything."""
        if self.text() != face.text:
            self.setText(face.text)
            self.setShortcut(QKeySequence(KEYS))  # which a new text takes away
        self.setEnabled(face.enabled)
        self.setToolTip(f"{face.tip} ({KEYS})" if face.enabled else face.tip)
        if face.resumes is not self._resumes:
            self._resumes = face.resumes
            self._draw()

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme
        self._draw()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Wide enough for the longest face."""
        hint = super().sizeHint()
        metrics = self.fontMetrics()
        more = metrics.horizontalAdvance(LONGEST) - metrics.horizontalAdvance(self.text())
        return QSize(hint.width() + max(more, 0), hint.height())

    def _draw(self) -> None:
        name = "resume" if self._resumes else "pause"
        self.setIcon(glyph(name, self._theme.text, self._theme.disabled, gap=GAP_PX))

    def _pressed(self) -> None:
        if self._resumes:
            self.resume_asked.emit()
        else:
            self.pause_asked.emit()
