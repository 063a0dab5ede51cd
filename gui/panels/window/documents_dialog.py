"""The documents that are installed, as plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QListWidget, QPlainTextEdit, QWidget

from core.language import tr, tr_noop
from gui.widgets.dialogs.dialog import InfoDialog

WIDTH, LINES, LIST_WIDTH = 128, 36, 24
"""Size of the dialog, and width of the list, in characters and lines."""
NONE = tr_noop(
    "This installation has no documents.\n\nThe command line explains itself:\n\n"
    "    trainyard --help\n    trainyard run --help\n"
)


class DocumentsDialog(InfoDialog):
    """A list of documents; the selected one beside it."""

    open_asked = Signal(object)
    """A document, to be opened in another program."""

    def __init__(self, parent: QWidget, documents: Mapping[str, Path], read: Callable[[Path], str]) -> None:
        """`read`: returns the text of a document, or a sentence why it cannot be read."""
        super().__init__(parent, name="documentsDialog", heading=tr("Documentation"))
        self._documents, self._read = list(documents.values()), read
        self.titles = QListWidget()
        self.titles.setObjectName("documentList")
        self.titles.setAccessibleName(tr("Documents"))
        self.titles.addItems(list(documents))
        self.titles.setFixedWidth(self.characters(LIST_WIDTH))
        self.text = QPlainTextEdit()
        self.text.setObjectName("documentText")
        self.text.setAccessibleName(tr("Text of the document"))
        self.text.setReadOnly(True)
        self.text.setPlainText(tr(NONE))
        row = QHBoxLayout()
        self.content.addLayout(row, 1)
        row.addWidget(self.titles)
        row.addWidget(self.text, 1)
        self.titles.currentRowChanged.connect(self._show)
        self.titles.setVisible(bool(documents))
        if documents:
            self.add_button("openDocument", tr("Open in another program"), self._open)
            self.titles.setCurrentRow(0)
        self.resize(self.characters(WIDTH), self.lines(LINES))

    def _show(self, row: int) -> None:
        self.text.setPlainText(self._read(self._documents[row]))

    def _open(self) -> None:
        self.open_asked.emit(self._documents[self.titles.currentRow()])
