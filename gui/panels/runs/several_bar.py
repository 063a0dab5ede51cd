"""The bar below the list of runs while several are ticked."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from core.language import tr, tr_plural
from gui.style.icons import SIDE_PX, ButtonIcon
from gui.viewmodels.runs.run_actions import ACTIONS
from gui.widgets.compact import compact_button
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import verbatim

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
        self.more, self.none = QToolButton(), QToolButton()
        for button, name, spoken, icon, side in (
            (self.more, "severalMenuButton", tr("Actions for all ticked runs"), "dots", DOTS_PX),
            (self.none, "untickButton", tr("Untick all runs (Esc)"), "cross", SIDE_PX),
        ):
            ButtonIcon(button, icon, side=side)
            button.setObjectName(name)
            button.setProperty("compact", True)
            button.setAccessibleName(spoken)
            button.setToolTip(verbatim(spoken))
        self.more.clicked.connect(lambda: self.menu_asked.emit(self.more.mapToGlobal(QPoint(0, self.more.height()))))
        self.none.clicked.connect(self.untick_asked)
        hbox(self, self.compare, 0, self.more, self.none, gap=2, margins=(6, 4, 0, 0))
        self.hide()

    def show_count(self, count: int) -> None:
        """Show that so many runs are ticked; the bar is hidden for fewer than two."""
        self.compare.setText(tr_plural("Compare {count} run", "Compare {count} runs", count))
        self.setVisible(count > 1)
