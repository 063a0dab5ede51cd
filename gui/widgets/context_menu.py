"""Give a widget a context menu, which is made whenever it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractScrollArea, QMenu, QWidget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Entry = tuple[str, Callable[[], object]] | None
    """The text of an action and what it does; None: a separator."""


def give_menu(widget: QWidget, name: str, entries: Callable[[QPoint], Sequence[Entry]]) -> None:
    """Open a menu at the mouse, or for the key. `entries`: returns them for a place in the widget.

    `name`: the object name of the menu.
    """

    def open_menu(place: QPoint) -> None:
        menu = QMenu(widget)
        menu.setObjectName(name)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for entry in entries(place):
            if entry is None:
                menu.addSeparator()
                continue
            text, act = entry
            action = QAction(text, menu)  # made here: PySide loses sight of those that Qt makes
            action.triggered.connect(lambda _, act=act: act())
            menu.addAction(action)
        # A table tells places in its viewport.
        shown = widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget
        menu.popup(shown.mapToGlobal(place))

    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(open_menu)
