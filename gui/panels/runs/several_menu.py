"""What can be done with several runs at once: a menu, and the bar below the list while several are ticked."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QMenu, QToolButton, QWidget

from core.language import tr, tr_noop, tr_plural
from gui.style.icons import glyph, icon_size
from gui.style.theme import Theme
from gui.widgets.compact import compact_button
from gui.widgets.plain_text import verbatim

ACTIONS = (
    ("compare", tr_noop("Compare"), tr_noop("Show their curves in one plot, and what differs between them")),
    ("archive", tr_noop("Archive"), tr_noop("Leave them out of the list; nothing is deleted")),
    ("list", tr_noop("List again"), tr_noop("List them again if they are archived")),
    ("tags", tr_noop("Tags…"), tr_noop("Give them words by which they are found, or take them away")),
    (
        "report",
        tr_noop("Export report…"),
        tr_noop("Write one page with their curves, settings and what differs (HTML)"),
    ),
    ("tensorboard", tr_noop("Export for TensorBoard…"), tr_noop("Write every step of every metric as event files")),
    ("remove", tr_noop("Delete…"), tr_noop("Delete their folders, after a question; only of runs that have ended")),
)
"""Name, text and explanation of each action."""
DOTS_PX = 15


class SeveralMenu(QMenu):
    """The menu of all ticked runs. It is filled when it is first opened."""

    asked = Signal(str)
    """The name of the chosen action."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("severalMenu")
        self.setToolTipsVisible(True)
        self.heading = ""

    def popup_for(self, count: int, place: QPoint) -> None:
        """Open the menu of so many runs."""
        self.clear()
        self.heading = tr_plural("{count} run", "{count} runs", count)
        self.addSection(self.heading)
        for name, text, tip in ACTIONS:
            if name in {"report", "remove"}:
                self.addSeparator()
            action = QAction(tr(text), self)  # made here: see `RunMenu`
            self.addAction(action)
            action.triggered.connect(lambda _, name=name: self.asked.emit(name))
            action.setObjectName(f"{name}SeveralAction")
            action.setToolTip(verbatim(tr(tip)))
        self.popup(place)


class SeveralBar(QWidget):
    """A button that compares the ticked runs, one for all else, and one that unticks them."""

    asked = Signal(str)
    """`compare`: compare them; `none`: untick all."""
    menu_asked = Signal(QPoint)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("severalBar")
        self.compare = compact_button("compareButton", "", tr(ACTIONS[0][2]), role="link")
        self.compare.clicked.connect(lambda: self.asked.emit("compare"))
        self.more, self.none = QToolButton(), QToolButton()
        for button, name, spoken in (
            (self.more, "severalMenuButton", tr("Actions for all ticked runs")),
            (self.none, "untickButton", tr("Untick all runs (Esc)")),
        ):
            button.setObjectName(name)
            button.setProperty("compact", True)
            button.setAccessibleName(spoken)
            button.setToolTip(verbatim(spoken))
        self.more.clicked.connect(lambda: self.menu_asked.emit(self.more.mapToGlobal(QPoint(0, self.more.height()))))
        self.none.clicked.connect(lambda: self.asked.emit("none"))
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 4, 0, 0)
        row.setSpacing(2)
        row.addWidget(self.compare)
        row.addStretch(1)
        row.addWidget(self.more)
        row.addWidget(self.none)
        self.set_theme(theme)
        self.hide()

    def show_count(self, count: int) -> None:
        """Show that so many runs are ticked; the bar is hidden for fewer than two."""
        self.compare.setText(tr_plural("Compare {count} run", "Compare {count} runs", count))
        self.setVisible(count > 1)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        for button, icon in ((self.more, "dots"), (self.none, "cross")):
            button.setIconSize(icon_size(side=DOTS_PX if icon == "dots" else 12))
            button.setIcon(glyph(icon, theme.muted, theme.disabled))
