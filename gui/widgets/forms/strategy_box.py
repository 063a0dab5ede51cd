"""The strategy box: what can be used with the ticked devices, and below a line the rest, with its reasons.

The boxes for the ways to launch a script, and for its Python, are others of its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox

from .fields import field, select
from .strategy_delegate import SECOND_LINE, WIDTH_PX, StrategyDelegate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gui.style.theme import Theme
    from gui.viewmodels.setup.strategy_rows import StrategyRow

TIP = "How the training is spread over the devices"


class StrategyBox(QComboBox):
    """The data of an item is the strategy's id. A strategy that cannot be used any more stays chosen."""

    chosen = Signal()
    """Somebody has made a choice, be it the same one."""

    def __init__(self, theme: Theme, name: str = "strategyBox", accessible: str = "Strategy", tip: str = TIP) -> None:
        super().__init__()
        self._tip = tip
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(4)
        field(self, name, accessible, tip)
        self._rows: list[StrategyRow] = []
        self._delegate = StrategyDelegate(theme, self)
        self.setItemDelegate(self._delegate)
        self.view().setMinimumWidth(WIDTH_PX)
        self.view().setTextElideMode(Qt.TextElideMode.ElideNone)
        self.currentIndexChanged.connect(lambda _: self._tell())
        self.currentIndexChanged.connect(lambda _: self.chosen.emit())
        self.activated.connect(lambda _: self.chosen.emit())

    def show_rows(self, rows: Sequence[StrategyRow]) -> None:
        """Offer these, the ones that can be used first; what is chosen stays so, if it is among them."""
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
        self._tell()

    def show_strategy(self, strategy: str) -> bool:
        """Show this one without its being anybody's choice; whether there is one."""
        self.blockSignals(True)
        found = select(self, strategy)
        self.blockSignals(False)
        self._tell()
        self.update()
        return found

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._delegate.set_theme(theme)

    def _add(self, row: StrategyRow) -> None:
        self.addItem(row.title, row.strategy)
        place = self.count() - 1
        self.setItemData(place, row.obstacle or row.summary, SECOND_LINE)
        self.setItemData(place, row.obstacle or row.summary, Qt.ItemDataRole.ToolTipRole)
        spoken = f"{row.title}, not available: {row.obstacle}" if row.obstacle else f"{row.title}: {row.summary}"
        self.setItemData(place, spoken, Qt.ItemDataRole.AccessibleTextRole)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        model.item(place).setEnabled(not row.obstacle)

    def _tell(self) -> None:
        """What is chosen, in full: the box may be too narrow for it."""
        row = next((row for row in self._rows if row.strategy == self.currentData()), None)
        self.setToolTip(f"{row.title}: {row.obstacle or row.summary}" if row else self._tip)
