"""What is dropped on the window, wherever it falls: a recipe, or a script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QGraphicsView

from gui.viewmodels.setup.script_text import is_program

if TYPE_CHECKING:
    from PySide6.QtGui import QDropEvent
    from PySide6.QtWidgets import QWidget


def dropped_program(event: QDropEvent) -> Path | None:
    """The one Python file, or folder of a program, that is dragged, if it is one."""
    urls = event.mimeData().urls()
    path = Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
    return path if path is not None and is_program(path) else None


def let_fall_through(window: QWidget) -> None:
    """Plots take whatever is dragged over them and do nothing with it: the window is to be asked in their place."""
    for view in window.findChildren(QGraphicsView):
        view.setAcceptDrops(False)
        view.viewport().setAcceptDrops(False)
