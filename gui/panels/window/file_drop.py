"""Accept a recipe or a script dropped anywhere on the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QGraphicsView, QWidget

from gui.viewmodels.setup.script_text import is_program


def dropped_program(event: QDropEvent) -> Path | None:
    """Return the dragged Python file or program folder; None for anything else."""
    urls = event.mimeData().urls()
    path = Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
    return path if path is not None and is_program(path) else None


def pass_drops_to_window(window: QWidget) -> None:
    """Stop plots from accepting drops, which they would ignore, so that the window gets them."""
    for view in window.findChildren(QGraphicsView):
        view.setAcceptDrops(False)
        view.viewport().setAcceptDrops(False)
