"""What this program and this machine are, as a report, and the dialog that shows it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QGridLayout, QWidget

from core.devices.device import Survey
from core.language import tr, tr_noop
from core.system.installation import version
from core.text import size
from gui.base.formatting import DASH
from gui.widgets.buttons import compact_button
from gui.widgets.dialogs import InfoDialog
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel
from gui.widgets.table import RowsTable, text_columns

PACKAGES = ("PySide6-Essentials", "pyqtgraph", "numpy", "nvidia-ml-py", "platformdirs")
DESKTOP_VARIABLES = ("XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE", "QT_QPA_PLATFORM", "QT_SCALE_FACTOR", "LANG")
"""Environment variables that decide how a window looks."""
MAX_LICENCE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library that the window uses."""

    name: str
    version: str
    licence: str


def libraries() -> list[Library]:
    """Return the libraries with what their packages say about themselves. Reads files."""
    found = [Library(name="Python", version=platform.python_version(), licence="PSF-2.0")]
    return found + [_library(name) for name in PACKAGES]


def _library(name: str) -> Library:
    try:
        data = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return Library(name=name, version=DASH, licence=DASH)
    texts = [*(data.get_all("License-Expression") or ()), *(data.get_all("License") or ())]
    classifiers = [each.rpartition(" :: ")[2] for each in data.get_all("Classifier") or () if "License ::" in each]
    short = next((text for text in texts if text and len(text) <= MAX_LICENCE and "\n" not in text), "")
    return Library(name=name, version=data["Version"], licence=short or ", ".join(classifiers) or DASH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the program keeps what it writes."""

    runs: Path
    presets: Path
    settings: Path


def report(survey: Survey, places: Places, last_error: str) -> str:
    """Return a report in plain text: versions, platform, devices, folders, and the last error of the window."""
    lines = [
        f"Trainyard {version()}",
        f"System: {platform.platform()}",
        *[f"{each.name} {each.version}" for each in libraries()],
        *[f"{name}={os.environ[name]}" for name in DESKTOP_VARIABLES if os.environ.get(name)],
        "",
        "Devices:",
        *_devices(survey),
        "",
        f"Runs: {places.runs}",
        f"Presets: {places.presets}",
        f"Settings: {places.settings}",
        "",
        "Last error of the window:",
        last_error.strip() or "none",
    ]
    home = os.path.expanduser("~")  # noqa: PTH111 (as text)
    text = "\n".join(lines) + "\n"
    return re.sub(rf"{re.escape(home)}(?=/)", "~", text) if home != "/" else text


def _devices(survey: Survey) -> Sequence[str]:
    rows = [f"  {each.label}: {each.name}, {size(each.memory_total_bytes)}" for each in survey.devices]
    return [*(rows or ["  none"]), *([f"  {survey.banner}"] if survey.banner else [])]


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
