"""A notice that outlives the window, and files that are dropped on the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QDialogButtonBox, QGraphicsView, QWidget

from core.language import tr
from gui.machine.script import is_program
from gui.widgets.dialogs import MARGINS_PX
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel


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


class NoticeWindow(QWidget):
    """A separate window: the main window closes at once, the program exits when this one is closed."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.setObjectName("farewell")
        self.setWindowTitle("Trainyard")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._text = PlainLabel(sentence, wraps=True)
        self._text.setMinimumWidth(380)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok)
        buttons.accepted.connect(self.close)
        vbox(self, self._text, buttons, gap=14, margins=MARGINS_PX)
        self.setAutoFillBackground(True)


def notice_sentence(names: list[str], run_ids: list[str]) -> str:
    """Return the sentence about the runs that continue."""
    if len(names) == 1:
        return tr(
            "{name} continues in the background. Open Trainyard again to see it, or end it with: trainyard stop {run}",
            name=names[0],
            run=run_ids[0],
        )
    return tr(
        "{count} runs continue in the background. Open Trainyard again to see them, or end one with: "
        "trainyard stop RUN",
        count=len(names),
    )
