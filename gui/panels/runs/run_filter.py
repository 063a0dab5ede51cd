"""The field above the list of runs: words and conditions that the listed runs fit."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QKeyCombination, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit

from core.language import tr, tr_noop
from gui.style.theme import mark
from gui.widgets.plain_text import verbatim

PLACEHOLDER = tr_noop("Filter: name, lr<0.01 …")
TIP = tr_noop(
    "Words of names, tags and notes, and conditions: state:failed lr<1e-3 tag:baseline framework:keras star:yes. "
    "sort:loss sorts, sort:-loss the other way round. archived:yes lists archived runs."
)
PAUSE_MS = 120
"""Milliseconds without a key after which the list follows."""


class RunFilter(QLineEdit):
    """A search field. Escape empties it; a search that is not understood is marked, and says why."""

    search_changed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("runFilter")
        self.setAccessibleName(tr("Filter the runs"))
        self.setPlaceholderText(tr(PLACEHOLDER))
        self.setClearButtonEnabled(True)
        self.setStyleSheet("QLineEdit { margin: 3px 4px 6px 2px; }")
        self._timer = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._timer.timeout.connect(lambda: self.search_changed.emit(self.text()))
        self.textChanged.connect(lambda _: self._timer.start())
        self.returnPressed.connect(self._follow_now)
        self.show_problem("")

    def show_problem(self, sentence: str) -> None:
        """Say why the search cannot be used, or finds nothing; the empty string if it can."""
        mark(self, tone="bad" if sentence else "")
        self.setToolTip(verbatim(sentence or tr(TIP)))
        self.setAccessibleDescription(sentence or tr(TIP))

    def event(self, event: QEvent) -> bool:
        """Take Escape, which a shortcut would have, as long as there is a text."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.keyCombination() == QKeyCombination(Qt.Key.Key_Escape)
            and self.text()
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Empty the field with Escape; a second Escape leaves it."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            self._follow_now()
        else:
            super().keyPressEvent(event)

    def _follow_now(self) -> None:
        self._timer.stop()
        self.search_changed.emit(self.text())
