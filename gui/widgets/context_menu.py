"""Give a widget a context menu, which is made whenever it is opened. The entries that copy a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractScrollArea, QMenu, QWidget

from core.language import tr
from gui.widgets.plain_text import verbatim

Action = tuple[str, Callable[[], object]]
"""Its text and what it does."""
Entry = Action | None
"""None: a separator."""


def copy_entries(asked: Callable[[str], object]) -> list[Action]:
    """Return the entries that copy a table; `asked` is called with `markdown` or `csv`."""
    return [(tr("Copy table as Markdown"), lambda: asked("markdown")), (tr("Copy table as CSV"), lambda: asked("csv"))]


def add_action(menu: QMenu, text: str, does: Callable[[], object] | None = None, tip: str = "") -> QAction:
    """Add an action to a menu, and return it. It is made here: PySide loses sight of those that Qt makes."""
    action = QAction(text, menu)
    menu.addAction(action)
    if tip:
        action.setToolTip(verbatim(tip))
    if does is not None:
        action.triggered.connect(lambda _: does())
    return action


def open_menu(widget: QWidget, name: str, entries: Sequence[Entry], place: QPoint) -> None:
    """Open a menu with these entries at a place on the screen. `name`: its object name."""
    menu = QMenu(widget)
    menu.setObjectName(name)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    for entry in entries:
        if entry is None:
            menu.addSeparator()
        else:
            add_action(menu, *entry)
    menu.popup(place)


def give_menu(widget: QWidget, name: str, entries: Callable[[QPoint], Sequence[Entry]]) -> None:
    """Open a menu at the mouse, or for the key. `entries`: returns them for a place in the widget.

    `name`: the object name of the menu.
    """
    # A table tells places in its viewport.
    shown = widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget
    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(
        lambda place: open_menu(widget, name, entries(place), shown.mapToGlobal(place))
    )
