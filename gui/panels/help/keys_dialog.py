"""The list of keys: those of the menus, and those of the parts of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QTableWidget

from gui.widgets.dialog import InfoDialog
from gui.widgets.table import plain_table, show_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtWidgets import QWidget

WIDTH, LINES = 64, 26
"""Size of the dialog, in characters and lines."""
ELSEWHERE = (
    ("Devices", "Tick or untick the selected device", "Space"),
    ("Plots", "Zoom into a range", "Drag"),
    ("Plots", "Move along the run", "Left, Right, Shift+drag"),
    ("Plots", "Zoom in or out", "+, -, wheel"),
    ("Plots", "Move or zoom the values of the loss", "Drag or wheel on their axis"),
    ("Plots", "Show the whole run", "A, double click"),
    ("Log", "Next and previous match", "Return, Shift+Return"),
    ("Processes", "End the selected processes (asks first)", "Delete"),
    ("Runs", "Show the selected run", "Return"),
    ("Everywhere", "Next and previous field", "Tab, Shift+Tab"),
    ("Everywhere", "Open the menu of what has the focus", "Menu key, Shift+F10"),
)
"""Part of the window, what the key does there, and the key."""


class KeysDialog(InfoDialog):
    """A table of menu or part of the window, action, and key."""

    def __init__(self, parent: QWidget, of_menus: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(parent, name="keysDialog", heading="Keys")
        rows = [*of_menus, *ELSEWHERE]
        table = QTableWidget()
        plain_table(table, "keyTable", "Keys", ("Where", "What", "Key"))
        show_texts(table, rows)
        table.setMinimumWidth(table.horizontalHeader().length() + self.characters(4))
        self.content.addWidget(table, 1)
        self.resize(self.characters(WIDTH), self.lines(LINES))
