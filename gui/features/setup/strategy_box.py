"""The list of strategies, with why one cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QStandardItemModel
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from core.catalog import strategies
from core.catalog.strategies import Strategy
from core.config import validation
from core.config.validation import ProblemKind
from core.devices.device import Device
from core.language import tr, tr_noop
from gui.base.painting import Index, outline, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.widgets.fields import ChoiceBox, field, select
from gui.widgets.plain_text import verbatim


class StrategyRow(NamedTuple):
    """One strategy, ready to be shown."""

    strategy: str
    title: str
    summary: str
    obstacle: str = ""
    """Why it cannot be used; the empty string if it can."""


def strategy_rows(framework: str, devices: Sequence[Device]) -> list[StrategyRow]:
    """Return all strategies of a framework, those that can use these devices first."""
    found = strategies.strategies_of(framework)
    rows = [StrategyRow(each.name, tr(each.title), tr(each.summary), _obstacle(each, devices)) for each in found]
    return sorted(rows, key=lambda row: bool(row.obstacle))


def _obstacle(strategy: Strategy, devices: Sequence[Device]) -> str:
    """Return why a strategy cannot use these devices, below its title; the empty string if it can."""
    if reason := strategy.unavailable():
        return reason
    match validation.misfit(strategy, devices):
        case ProblemKind.OTHER_KIND:
            return tr("Runs on {names} only.", names=validation.device_kinds(strategy))
        case ProblemKind.TOO_FEW:
            return tr("Needs {count} devices or more.", count=strategy.min_devices)
        case ProblemKind.TOO_MANY:
            return tr("Trains on one device.")
        case _:
            return ""


SECOND_LINE = Qt.ItemDataRole.UserRole + 1
"""Item data: the text below the title; None for a separator."""
WIDTH_PX = 412
LEFT_PX, ABOVE_PX, GAP_PX = 10, 6, 1
TEXT_PX = WIDTH_PX - 2 * LEFT_PX - 12
"""Width of the text, less than the list by its frame."""
RULE_PX = 9
"""Height of a separator."""


class StrategyDelegate(QStyledItemDelegate):
    """Wraps the text below the title instead of cutting it: the whole reason must be readable."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._heights: dict[tuple[str, str, int], int] = {}
        """The height of a row in pixels, by font, text and width of the text."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the text."""
        text = index.data(SECOND_LINE)
        if text is None:
            return QSize(scaled(WIDTH_PX), RULE_PX)
        # Qt asks for all rows whenever one is added, and wrapping a text takes its time.
        asked = option.font.key(), str(text), scaled(TEXT_PX)
        if asked not in self._heights:
            room, wraps = QRect(0, 0, asked[2], 10_000), Qt.TextFlag.TextWordWrap
            below = QFontMetrics(small_font(option.font)).boundingRect(room, wraps, asked[1])
            self._heights[asked] = 2 * ABOVE_PX + QFontMetrics(option.font).height() + GAP_PX + below.height()
        return QSize(scaled(WIDTH_PX), self._heights[asked])

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one strategy or a separator."""
        rect, text = QRect(option.rect), index.data(SECOND_LINE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if text is None:
            rule = QRect(rect.left() + LEFT_PX, rect.center().y(), rect.width() - 2 * LEFT_PX, 1)
            painter.fillRect(rule, QColor(current_theme().field_border))
        else:
            self._paint_row(painter, option, index, rect.adjusted(LEFT_PX, ABOVE_PX, -LEFT_PX, -ABOVE_PX))
        painter.restore()

    def _paint_row(self, painter: QPainter, option: QStyleOptionViewItem, index: Index, inside: QRect) -> None:
        usable = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        if usable and option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(outline(current_theme().accent))
            painter.setBrush(QColor(current_theme().accent_soft))
            painter.drawRoundedRect(QRectF(option.rect).adjusted(1, 1, -1, -1), 5, 5)
        height = QFontMetrics(option.font).height()
        painter.setFont(option.font)
        painter.setPen(QColor(current_theme().text if usable else current_theme().muted))
        painter.drawText(QRect(inside.left(), inside.top(), inside.width(), height), 0, str(index.data()))
        painter.setFont(small_font(option.font))
        painter.setPen(QColor(current_theme().muted))
        below = QRect(inside.left(), inside.top() + height + GAP_PX, scaled(TEXT_PX), inside.height())
        painter.drawText(below, Qt.TextFlag.TextWordWrap, str(index.data(SECOND_LINE)))


TIP = tr_noop("How to spread the training over the devices")


class StrategyBox(ChoiceBox):
    """The data of an item is the id of the strategy. A chosen strategy stays chosen if it becomes unusable."""

    chosen = Signal()
    """The user has made a choice, possibly the same one."""

    def __init__(self, name: str = "strategyBox", accessible: str = "", tip: str = "") -> None:
        super().__init__()
        self._tip = tip = tip or tr(TIP)
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
        spoken = f"{row.title}: {row.summary}"
        if row.obstacle:
            spoken = tr("{title}, not available: {obstacle}", title=row.title, obstacle=row.obstacle)
        self.setItemData(index, spoken, Qt.ItemDataRole.AccessibleTextRole)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        model.item(index).setEnabled(not row.obstacle)

    def _update_tooltip(self) -> None:
        """Describe the chosen row in the tooltip, because the box may cut its title."""
        row = next((row for row in self._rows if row.strategy == self.currentData()), None)
        self.setToolTip(verbatim(f"{row.title}: {row.obstacle or row.summary}" if row else self._tip))
