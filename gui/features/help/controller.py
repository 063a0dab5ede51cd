"""Help: documents, keys, folders, and what is wrong with the window."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QDialog, QGridLayout, QListWidget, QPlainTextEdit, QWidget

from core.config import presets
from core.devices.device import Survey
from core.language import tr, tr_noop
from core.system.installation import document_text, documents, version
from core.text import size
from gui.base.formatting import DASH
from gui.base.settings_file import default_file
from gui.widgets.buttons import compact_button
from gui.widgets.dialogs import InfoDialog
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox
from gui.widgets.messages import open_path
from gui.widgets.plain_text import PlainLabel, named, without_mnemonic
from gui.widgets.table import RowsTable, text_columns
from gui.window.feature import Feature

PAGE_CHARACTERS, PAGE_LINES, LIST_WIDTH = 128, 36, 24
"""Size of the dialog, and width of the list, in characters and lines."""
NONE = tr_noop(
    "This installation has no documents.\n\nThe command line explains itself:\n\n"
    "    trainyard --help\n    trainyard run --help\n"
)


Opens = Callable[[Path], object]
"""Opens a file or folder in the desktop's program for it."""


class DocumentsDialog(InfoDialog):
    """A list of documents; the selected one beside it."""

    def __init__(self, parent: QWidget, documents: Mapping[str, Path], opens: Opens) -> None:
        super().__init__(parent, name="documentsDialog", heading=tr("Documentation"))
        self._documents = list(documents.values())
        self.titles = named(QListWidget(), "documentList", tr("Documents"))
        self.titles.addItems(list(documents))
        self.titles.setFixedWidth(self.characters(LIST_WIDTH))
        self.text = named(QPlainTextEdit(), "documentText", tr("Text of the document"))
        self.text.setReadOnly(True)
        self.text.setPlainText(tr(NONE))
        hbox(self.content, self.titles, (self.text, 1), gap=12)
        self.content.setStretch(0, 1)
        self.titles.currentRowChanged.connect(self._show)
        self.titles.setVisible(bool(documents))
        if documents:
            open_chosen = lambda: opens(self._documents[self.titles.currentRow()])  # noqa: E731
            self.add_button("openDocument", tr("Open in another program"), open_chosen)
            self.titles.setCurrentRow(0)
        self.resize(self.characters(PAGE_CHARACTERS), self.lines(PAGE_LINES))

    def _show(self, row: int) -> None:
        self.text.setPlainText(document_text(self._documents[row]))


TABLE_CHARACTERS, TABLE_LINES = 64, 26
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
        self.resize(self.characters(TABLE_CHARACTERS), self.lines(TABLE_LINES))


PACKAGES = ("PySide6-Essentials", "pyqtgraph", "numpy", "nvidia-ml-py", "platformdirs")
DESKTOP_VARIABLES = ("XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE", "QT_QPA_PLATFORM", "QT_SCALE_FACTOR", "LANG")
"""Environment variables that decide how a window looks."""
MAX_LICENCE = 60


def libraries() -> list[tuple[str, str, str]]:
    """Return name, version and licence of the libraries that the window uses, as their packages say. Reads files."""
    return [("Python", platform.python_version(), "PSF-2.0"), *map(_library, PACKAGES)]


def _library(name: str) -> tuple[str, str, str]:
    try:
        data = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return name, DASH, DASH
    texts = [*(data.get_all("License-Expression") or ()), *(data.get_all("License") or ())]
    classifiers = [each.rpartition(" :: ")[2] for each in data.get_all("Classifier") or () if "License ::" in each]
    short = next((text for text in texts if text and len(text) <= MAX_LICENCE and "\n" not in text), "")
    return name, data["Version"], short or ", ".join(classifiers) or DASH


Places = Mapping[str, Path]
"""Where the program keeps what it writes: `runs`, `presets` and `settings`."""


def report(survey: Survey, places: Places, last_error: str) -> str:
    """Return a report in plain text: versions, platform, devices, folders, and the last error of the window."""
    lines = [
        f"Trainyard {version()}",
        f"System: {platform.platform()}",
        *[f"{name} {number}" for name, number, _ in libraries()],
        *[f"{name}={os.environ[name]}" for name in DESKTOP_VARIABLES if os.environ.get(name)],
        "",
        "Devices:",
        *_devices(survey),
        "",
        *[f"{name.capitalize()}: {path}" for name, path in places.items()],
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
    """Version, licences and folders."""

    def __init__(self, parent: QWidget, places: Places, opens: Opens, copy_report: Callable[[], object]) -> None:
        super().__init__(parent, name="aboutDialog", heading=f"Trainyard {version()}")
        picture = PlainLabel()
        picture.setPixmap(parent.windowIcon().pixmap(QSize(ICON_PX, ICON_PX)))
        hbox(self.content, picture, (PlainLabel(tr(SENTENCE), wraps=True), 1), gap=16)
        self._add_folders(places, opens)
        self.content.addWidget(PlainLabel(tr(LIBRARIES)))
        self.content.addWidget(_library_table(), 1)
        self.add_button("copyReportButton", tr("Copy report"), copy_report)
        self.resize(self.characters(WIDTH), self.sizeHint().height())

    def _add_folders(self, places: Places, opens: Opens) -> None:
        grid = QGridLayout()
        self.content.addLayout(grid)
        grid.setColumnStretch(1, 1)
        for row, (name, path) in enumerate(places.items()):
            shown = ElidedLabel(str(path), min_px=self.characters(20), name=f"{name}Path")
            shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            folder = path if name != "settings" else path.parent
            spoken = tr("Open the folder: {name}", name=tr(TITLES[name]))
            button = compact_button(f"open-{name}", tr("Open"), str(folder), spoken=spoken, does=partial(opens, folder))
            grid.addWidget(PlainLabel(tr(TITLES[name])), row, 0)
            grid.addWidget(shown, row, 1)
            grid.addWidget(button, row, 2)


def _library_table() -> RowsTable[Sequence[str]]:
    columns = text_columns((tr("Library"), tr("Version"), tr("Licence")))
    table = RowsTable("libraryTable", tr("Libraries and their licences"), columns)
    table.show_rows(libraries())
    table.horizontalHeader().setStretchLastSection(True)
    table.setMinimumHeight(table.height_of_rows())
    return table


class HelpController(Feature):
    """Loads what it shows only when it is asked for."""

    def set_up(self) -> None:
        self.panels.menu.provide(
            documents=self.show_documents, keys=self.show_keys, report=self.copy_report, about=self.show_about
        )
        for strip in (self._message, self.panels.broken):
            strip.details_asked.connect(self.copy_report)

    def copy_report(self) -> None:
        """Put the report on the clipboard."""
        text = report(self.services.device_monitor.survey, self._places(), self.services.last_error)
        self.panels.message.copy(text, tr("Copied a report: versions, platform, devices and the last error."))

    def show_about(self) -> None:
        """Show version, licences and folders."""
        opens = partial(open_path, message=self.panels.message)
        self._open(AboutDialog(self.panels.window, self._places(), opens, self.copy_report))

    def show_keys(self) -> None:
        """Show the list of keys."""
        self._open(KeysDialog(self.panels.window, list(self._keys())))

    def show_documents(self) -> None:
        """Show the documents that are installed."""
        opens = partial(open_path, message=self.panels.message)
        self._open(DocumentsDialog(self.panels.window, documents(), opens))

    def _open(self, dialog: QDialog) -> None:
        """Show a dialog, unless there is one of its name already."""
        name = dialog.objectName()
        others = [each for each in self.panels.window.findChildren(type(dialog), name) if each is not dialog]
        if any(each.isVisible() for each in others):
            dialog.deleteLater()
        else:
            dialog.show()

    def _keys(self) -> Iterator[tuple[str, str, str]]:
        menus = self.panels.menu
        for menu in (menus.file, menus.run, menus.view, menus.tools, menus.help):
            for action in menu.actions():
                text, _, keys = without_mnemonic(action.text()).partition("\t")
                keys = keys or action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
                if keys and text and action.isVisible():
                    yield without_mnemonic(menu.title()), text.removesuffix("…"), keys

    def _places(self) -> Places:
        runs = self.services.run_list.root
        return {"runs": runs, "presets": presets.default_root(), "settings": default_file()}
