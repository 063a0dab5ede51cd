"""A box of strategies: first the usable ones, then below a line the others with their reasons.

It also serves the launch modes and the Pythons of a script.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox

from core.language import tr, tr_noop
from gui.viewmodels.setup.strategy_rows import StrategyRow
from gui.widgets.forms.choice_box import ChoiceBox
from gui.widgets.forms.fields import field, select
from gui.widgets.plain_text import verbatim

from .strategy_delegate import SECOND_LINE, StrategyDelegate

TIP = tr_noop("How to spread the training over the devices")


class StrategyBox(ChoiceBox):
    """The data of an item is the id of the strategy. A chosen strategy stays chosen if it becomes unusable."""

    chosen = Signal()
    """The user has made a choice, possibly the same one."""

    def __init__(self, name: str = "strategyBox", accessible: str = "", tip: str = "") -> None:
        super().__init__()
        self._tip = tip = tip or tr(TIP)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(4)
        field(self, name, accessible or tr("Strategy"), tip)
        self._rows: list[StrategyRow] = []
        self._delegate = StrategyDelegate(self)
        self.setItemDelegate(self._delegate)
        self.view().setTextElideMode(Qt.TextElideMode.ElideNone)
        self.currentIndexChanged.connect(lambda _: self._update_tooltip())
        self.currentIndexChanged.connect(lambda _: self.chosen.emit())
        self.activated.connect(lambda _: self.chosen.emit())

    def show_rows(self, rows: Sequence[StrategyRow]) -> None:
        """Offer these rows, usable ones first; a chosen row stays chosen if it is among them."""
        if rows == self._rows:
            return
        before, self._rows = self.currentData(), list(rows)
        self.blockSignals(True)
        self.clear()
        for number, row in enumerate(rows):
            if number and row.obstacle and not rows[number - 1].obstacle:
                self.insertSeparator(number)
            self._add(row)
        select(self, before)
        self.blockSignals(False)
        self._update_tooltip()

    def show_strategy(self, strategy: str) -> bool:
        """Select this row without emitting `chosen`; return False if there is none."""
        self.blockSignals(True)
        found = select(self, strategy)
        self.blockSignals(False)
        self._update_tooltip()
        self.update()
        return found

    def _add(self, row: StrategyRow) -> None:
        self.addItem(row.title, row.strategy)
        index = self.count() - 1
        self.setItemData(index, row.obstacle or row.summary, SECOND_LINE)
        self.setItemData(index, verbatim(row.obstacle or row.summary), Qt.ItemDataRole.ToolTipRole)
        spoken = (
            tr("{title}, not available: {obstacle}", title=row.title, obstacle=row.obstacle)
            if row.obstacle
            else f"{row.title}: {row.summary}"
        )
        self.setItemData(index, spoken, Qt.ItemDataRole.AccessibleTextRole)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        model.item(index).setEnabled(not row.obstacle)

    def _update_tooltip(self) -> None:
        """Describe the chosen row in the tooltip, because the box may cut its title."""
        row = next((row for row in self._rows if row.strategy == self.currentData()), None)
        self.setToolTip(verbatim(f"{row.title}: {row.obstacle or row.summary}" if row else self._tip))
