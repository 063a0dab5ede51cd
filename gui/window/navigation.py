"""Move through the window by keyboard: Tab in visual order, F6 from card to card."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QDockWidget,
    QLayout,
    QMainWindow,
    QPlainTextEdit,
    QScrollArea,
    QSplitter,
    QWidget,
)

from gui.window.layout import DockLayout, MainPanels
from gui.window.services import Services


class CardNavigation(QObject):
    """Keeps the cards in visual order: header, devices, training, plots with what covers them, tabs, runs."""

    def __init__(self, window: QMainWindow, panels: MainPanels, services: Services, layout: DockLayout) -> None:
        super().__init__(window)
        self._window, self._panels = window, panels
        devices, training, runs, details = layout.docks
        plots = window.centralWidget()
        assert plots is not None
        self._cards: tuple[QWidget, ...] = (
            panels.header, devices, training, panels.setup.sheet, panels.failure, panels.first_steps, plots,
            panels.messages, details, runs,
        )
        self._last: dict[QWidget, QWidget] = {}
        """By card, what had the focus in it when F6 left it."""
        panels.menu.provide(nextCard=lambda: self.go(1), previousCard=lambda: self.go(-1), find=self.find)
        # When all is in its place:
        services.compared.changed.connect(lambda _: QTimer.singleShot(0, self, self.order_tabs))
        panels.plots.shown_on_request.connect(lambda _: self.order_tabs())
        panels.setup.sheet.opened.connect(self.order_tabs)  # another workload has other fields

    def order_tabs(self) -> None:
        """Let Tab follow the visual order. Call again after widgets were added."""
        stops = [each for card in self._cards for each in _in_order(card) if _takes_focus(each)]
        for one, other in pairwise(stops):
            QWidget.setTabOrder(one, other)

    def go(self, step: int) -> None:
        """Give the focus to the next card (`step` 1) or the previous one (-1): to what had it there, or to its list."""
        focus = QApplication.focusWidget()
        now = self._card_of(focus)
        if now is not None and focus is not None:
            self._last[now] = focus
        start = self._cards.index(now) if now is not None else (-1 if step > 0 else 0)
        for distance in range(1, len(self._cards) + 1):
            card = self._cards[(start + step * distance) % len(self._cards)]
            target = self._target(card)
            if target is not None:
                if isinstance(card, QDockWidget):
                    card.raise_()  # it may be behind another one
                target.setFocus(Qt.FocusReason.TabFocusReason)
                return

    def find(self) -> None:
        """Search in the card that has the focus: the settings while their sheet is open, the runs, else the log."""
        sheet, details, runs = self._panels.setup.sheet, self._panels.details, self._panels.run_filter
        if sheet.isVisible():
            sheet.search.setFocus()
            sheet.search.selectAll()
        elif self._card_of(QApplication.focusWidget()) is self._cards[-1] and not runs.isHidden():
            runs.setFocus()
            runs.selectAll()
        else:
            details.open_search()

    def _card_of(self, widget: QWidget | None) -> QWidget | None:
        return next((each for each in self._cards if widget is not None and each.isAncestorOf(widget)), None)

    def _target(self, card: QWidget) -> QWidget | None:
        """Return what shall have the focus in a card; None if the card is hidden or nothing in it can have it."""
        if card.isHidden():
            return None
        shown = [each for each in _in_order(card) if _takes_focus(each) and each.isVisibleTo(card) and each.isEnabled()]
        last = self._last.get(card)
        if last in shown:
            return last
        lists = [each for each in shown if _is_list(each)]
        return next(iter(lists or shown), None)


def next_stop(window: QWidget, *, forward: bool) -> QWidget | None:
    """Return the widget that Tab leads to from the one that has the focus, also beyond the last one.

    Qt's own search starts again in the middle of the window once it has passed the last widget.
    """
    begin = window.focusWidget() or window
    at = begin.nextInFocusChain() if forward else begin.previousInFocusChain()
    while at is not None and at is not begin:
        if _takes_focus(at) and at.isVisibleTo(window) and at.isEnabled():
            return at
        at = at.nextInFocusChain() if forward else at.previousInFocusChain()
    return None


def _is_list(widget: QWidget) -> bool:
    return isinstance(widget, QAbstractItemView) or (isinstance(widget, QPlainTextEdit) and widget.isReadOnly())


def _takes_focus(widget: QWidget) -> bool:
    takes = bool(widget.focusPolicy().value & Qt.FocusPolicy.TabFocus.value)
    return takes and widget.focusProxy() is None


def _in_order(widget: QWidget) -> Iterator[QWidget]:
    """Return a widget and everything in it, in the order of its layouts, which is the visual order."""
    yield widget
    if isinstance(widget, QAbstractItemView):
        return
    first: list[QWidget | None] = []
    if isinstance(widget, QDockWidget):
        first = [widget.titleBarWidget(), widget.widget()]
    elif isinstance(widget, QSplitter):
        first = [widget.widget(number) for number in range(widget.count())]
    elif isinstance(widget, QScrollArea):
        first = [widget.widget()]
    else:
        layout = widget.layout()
        first = list(_in_layout(layout)) if layout is not None else []
    children = [each for each in widget.children() if isinstance(each, QWidget) and not each.isWindow()]
    for child in dict.fromkeys([*(each for each in first if each is not None), *children]):
        yield from _in_order(child)


def _in_layout(layout: QLayout) -> Iterator[QWidget]:
    """Return the widgets of a layout in its order.

    They are not asked for with `itemAt`: PySide keeps the Python object of a `QWidgetItem` after Qt has deleted the
    item, and takes whatever is created at the same address later for that item, until the process crashes.
    """
    parent = layout.parentWidget()
    children = [] if parent is None else parent.children()
    widgets: list[tuple[int, QObject]] = [
        (layout.indexOf(child), child) for child in children if isinstance(child, QWidget)
    ]
    inner: list[tuple[int, QObject]] = [
        (layout.indexOf(child), child) for child in layout.children() if isinstance(child, QLayout)
    ]
    for number, child in sorted([*widgets, *inner], key=lambda pair: pair[0]):
        if isinstance(child, QLayout):
            yield from _in_layout(child)
        elif isinstance(child, QWidget) and number >= 0:
            yield child
