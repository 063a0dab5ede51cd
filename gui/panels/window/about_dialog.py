"""About Trainyard: its version, the licences of what it uses, and the folders it writes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QGridLayout, QWidget

from core.language import tr, tr_noop
from core.system.installation import version
from gui.viewmodels.program_report import Places, libraries
from gui.widgets.compact import compact_button
from gui.widgets.dialogs.dialog import InfoDialog
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel
from gui.widgets.table import RowsTable, text_columns

ICON_PX = 64
WIDTH = 76
"""Width of the dialog, in characters."""
TITLES = {
    "runs": tr_noop("Runs and their logs"),
    "presets": tr_noop("Presets"),
    "settings": tr_noop("Settings of the window"),
}
SENTENCE = tr_noop("A control panel for training on the devices you choose. Licence: Apache-2.0, without any warranty.")
LIBRARIES = tr_noop("It uses these libraries, under their own licences:")


class AboutDialog(InfoDialog):
    """Emits what the user asks for; the caller does it."""

    open_asked = Signal(object)
    """A folder, to be opened in the desktop's file manager."""
    report_asked = Signal()

    def __init__(self, parent: QWidget, icon: QIcon, places: Places) -> None:
        super().__init__(parent, name="aboutDialog", heading=f"Trainyard {version()}")
        picture = PlainLabel()
        picture.setPixmap(icon.pixmap(QSize(ICON_PX, ICON_PX)))
        sentence = PlainLabel(tr(SENTENCE), wraps=True)
        hbox(self.content, picture, (sentence, 1), gap=16)
        self._add_folders(places)
        self.content.addWidget(PlainLabel(tr(LIBRARIES)))
        self.content.addWidget(_library_table(), 1)
        self.add_button("copyReportButton", tr("Copy report"), self.report_asked.emit)
        self.resize(self.characters(WIDTH), self.sizeHint().height())

    def _add_folders(self, places: Places) -> None:
        grid = QGridLayout()
        self.content.addLayout(grid)
        grid.setColumnStretch(1, 1)
        for row, item in enumerate(fields(places)):
            path: Path = getattr(places, item.name)
            shown = ElidedLabel(min_px=self.characters(20), name=f"{item.name}Path")
            shown.setText(str(path))
            shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            folder = path if item.name != "settings" else path.parent
            spoken = tr("Open the folder: {name}", name=tr(TITLES[item.name]))
            button = compact_button(f"open-{item.name}", tr("Open"), str(folder), spoken=spoken)
            button.clicked.connect(lambda _, folder=folder: self.open_asked.emit(folder))
            grid.addWidget(PlainLabel(tr(TITLES[item.name])), row, 0)
            grid.addWidget(shown, row, 1)
            grid.addWidget(button, row, 2)


def _library_table() -> RowsTable[Sequence[str]]:
    columns = text_columns((tr("Library"), tr("Version"), tr("Licence")))
    table = RowsTable("libraryTable", tr("Libraries and their licences"), columns)
    table.show_rows([(each.name, each.version, each.licence) for each in libraries()])
    table.horizontalHeader().setStretchLastSection(True)
    table.setMinimumHeight(table.height_of_rows())
    return table
