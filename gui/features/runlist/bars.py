"""What stands above and below the list of runs: this machine, the filter, actions for several runs."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QKeyCombination, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from core.language import tr, tr_noop, tr_plural
from gui.base.icons import ButtonIcon
from gui.base.theme import mark
from gui.runs.actions import ACTIONS
from gui.widgets.buttons import compact_button, icon_button
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import menu_text, named, verbatim

PLACEHOLDER = tr_noop("Filter: name, lr<0.01 …")
FILTER_TIP = tr_noop(
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
        named(self, "runFilter", tr("Filter the runs"))
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
        self.setToolTip(verbatim(sentence or tr(FILTER_TIP)))
        self.setAccessibleDescription(sentence or tr(FILTER_TIP))

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


(COMPARE,) = (row.of_several[1] for row in ACTIONS if row.of_several and row.name == "compare")
DOTS_PX = 15


class SeveralBar(QWidget):
    """A button that compares the ticked runs, one for all else, and one that unticks them."""

    compare_asked = Signal()
    untick_asked = Signal()
    menu_asked = Signal(QPoint)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("severalBar")
        self.compare = compact_button("compareButton", "", tr(COMPARE), role="link")
        self.compare.clicked.connect(self.compare_asked)
        more, none = tr("Actions for all ticked runs"), tr("Untick all runs (Esc)")
        self.more = icon_button("dots", "severalMenuButton", more, side=DOTS_PX, compact=True)
        self.none = icon_button("cross", "untickButton", none, compact=True)
        self.more.clicked.connect(lambda: self.menu_asked.emit(self.more.mapToGlobal(QPoint(0, self.more.height()))))
        self.none.clicked.connect(self.untick_asked)
        hbox(self, self.compare, 0, self.more, self.none, gap=2, margins=(6, 4, 0, 0))
        self.hide()

    def show_count(self, count: int) -> None:
        """Show that so many runs are ticked; the bar is hidden for fewer than two."""
        self.compare.setText(tr_plural("Compare {count} run", "Compare {count} runs", count))
        self.setVisible(count > 1)


ICON_PX, ICON_GAP_PX = 13, 5
"""Side of the icon, and room between it and the text, which begins where the names of the runs below do."""
TITLE = tr_noop("This machine")
TIP = tr_noop("Show the devices of this machine and what they did in the last hour, without a run (Esc)")


class MachineEntry(QPushButton):
    """Checked while no run is shown. A click leaves the shown run; pressing it again changes nothing."""

    def __init__(self) -> None:
        super().__init__(tr(TITLE))
        named(self, "machineEntry", role="segment")
        self.setStyleSheet("QPushButton { text-align: left; padding-left: 6px; }")
        self.setCheckable(True)
        self.setChecked(True)
        self.setToolTip(tr(TIP))
        self.setAccessibleDescription(tr(TIP))
        self.setAutoDefault(False)
        ButtonIcon(self, "machine", side=ICON_PX, gap=ICON_GAP_PX)

    def show_host(self, name: str) -> None:
        """Name another machine, whose runs are listed."""
        tip = tr("Show the devices of {host} and what they did in the last hour, without a run (Esc)", host=name)
        self.setText(menu_text(name))
        self.setToolTip(verbatim(tip))
        self.setAccessibleDescription(tip)

    def show_chosen(self, *, chosen: bool) -> None:
        """Mark that no run is shown."""
        self.setChecked(chosen)
