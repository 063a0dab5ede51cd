"""The list of keys: those of the menus, and those of the parts of the window."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from core.language import tr, tr_noop
from gui.widgets.dialogs.dialog import InfoDialog
from gui.widgets.table import RowsTable, text_columns

WIDTH, LINES = 64, 26
"""Size of the dialog, in characters and lines."""
ELSEWHERE = (
    (tr_noop("Devices"), tr_noop("Tick or untick the selected device"), tr_noop("Space")),
    (tr_noop("Plots"), tr_noop("Zoom into a range"), tr_noop("Drag")),
    (tr_noop("Plots"), tr_noop("Move along the run"), tr_noop("Left, Right, Shift+drag")),
    (tr_noop("Plots"), tr_noop("Zoom in or out"), tr_noop("+, -, wheel")),
    (tr_noop("Plots"), tr_noop("Move or zoom the values of the loss"), tr_noop("Drag or wheel on their axis")),
    (tr_noop("Plots"), tr_noop("Show the whole run"), tr_noop("A, double click")),
    (tr_noop("Log"), tr_noop("Next and previous match"), tr_noop("Return, Shift+Return")),
    (tr_noop("Processes"), tr_noop("End the selected processes (asks first)"), tr_noop("Delete")),
    (tr_noop("Runs"), tr_noop("Show the selected run"), tr_noop("Return")),
    (tr_noop("Runs"), tr_noop("Move the selected queued run"), tr_noop("Alt+Up, Alt+Down, drag")),
    (tr_noop("Everywhere"), tr_noop("Next and previous field"), tr_noop("Tab, Shift+Tab")),
    (tr_noop("Everywhere"), tr_noop("Open the menu of what has the focus"), tr_noop("Menu key, Shift+F10")),
)
"""Part of the window, what the key does there, and the key."""


class KeysDialog(InfoDialog):
    """A table of menu or part of the window, action, and key."""

    def __init__(self, parent: QWidget, of_menus: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(parent, name="keysDialog", heading=tr("Keys"))
        rows = [*of_menus, *(tuple(map(tr, row)) for row in ELSEWHERE)]
        table = RowsTable("keyTable", tr("Keys"), text_columns((tr("Where"), tr("What"), tr("Key"))))
        table.show_rows(rows)
        table.resizeColumnsToContents()
        table.setMinimumWidth(table.horizontalHeader().length() + self.characters(4))
        table.horizontalHeader().setStretchLastSection(True)
        self.content.addWidget(table, 1)
        self.resize(self.characters(WIDTH), self.lines(LINES))
