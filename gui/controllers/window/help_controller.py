"""The menu Help: documents, keys, About, and the report with the last error of the window."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QDialog

from core.config import presets
from core.language import join_sentences, tr
from core.system.installation import document_text, documents
from gui.panels.window.about_dialog import AboutDialog
from gui.panels.window.documents_dialog import DocumentsDialog
from gui.panels.window.keys_dialog import KeysDialog
from gui.services.services import Services
from gui.services.window.settings_file import default_file
from gui.viewmodels.program_report import Places, report
from gui.widgets.plain_text import without_mnemonic

from .dock_layout import MainPanels

MAX_ERROR = 20_000
"""Characters of an error that the report keeps: its end, which says most."""


class HelpController(QObject):
    """Loads what it shows only when it is asked for."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._panels, self._services = panels, services
        self._last_error = ""
        for name, action in (
            ("documents", self.show_documents), ("keys", self.show_keys), ("report", self.copy_report),
            ("about", self.show_about),
        ):  # fmt: skip
            panels.menu.action(name).triggered.connect(lambda _, action=action: action())
        panels.message.details_asked.connect(self.copy_report)

    def show_error(self, error: BaseException, sentence: str = "") -> None:
        """Say that the window itself failed, and offer the report that has the details. `sentence`: comes first."""
        self._last_error = "".join(traceback.format_exception(error))[-MAX_ERROR:]
        self._panels.message.show_message(
            join_sentences(
                [
                    sentence,
                    tr(
                        "Something went wrong in the window: {error!r}. Runs are not affected. "
                        "Please report this: Copy report puts what is needed on the clipboard.",
                        error=error,
                    ),
                ]
            ),
            "bad",
            details=True,
            details_text=tr("Copy report"),
        )

    def copy_report(self) -> None:
        """Put the report on the clipboard."""
        QGuiApplication.clipboard().setText(
            report(self._services.device_monitor.survey, self._places(), self._last_error)
        )
        self._panels.message.show_passing(tr("Copied a report: versions, platform, devices and the last error."))

    def show_about(self) -> None:
        """Show version, licences and folders."""
        dialog = AboutDialog(self._panels.window, self._panels.window.windowIcon(), self._places())
        dialog.open_asked.connect(self.open_path)
        dialog.report_asked.connect(self.copy_report)
        self._open(dialog)

    def show_keys(self) -> None:
        """Show the list of keys."""
        self._open(KeysDialog(self._panels.window, list(self._keys())))

    def show_documents(self) -> None:
        """Show the documents that are installed."""
        dialog = DocumentsDialog(self._panels.window, documents(), document_text)
        dialog.open_asked.connect(self.open_path)
        self._open(dialog)

    def open_path(self, path: Path) -> None:
        """Open a file or folder in the desktop's program for it; say so if there is none."""
        if not path.exists():
            self._panels.message.show_message(tr("{path} does not exist yet.", path=path), "warn")
        elif not QDesktopServices.openUrl(QUrl.fromLocalFile(str(path))):
            self._panels.message.show_message(tr("The desktop has no program that opens {path}.", path=path), "warn")

    def _open(self, dialog: QDialog) -> None:
        """Show a dialog, unless there is one of its name already."""
        name = dialog.objectName()
        others = [each for each in self._panels.window.findChildren(type(dialog), name) if each is not dialog]
        if any(each.isVisible() for each in others):
            dialog.deleteLater()
        else:
            dialog.show()

    def _keys(self) -> Iterator[tuple[str, str, str]]:
        menus = self._panels.menu
        for menu in (menus.file, menus.run, menus.view, menus.tools, menus.help):
            for action in menu.actions():
                text, _, keys = without_mnemonic(action.text()).partition("\t")
                keys = keys or action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
                if keys and text and action.isVisible():
                    yield without_mnemonic(menu.title()), text.removesuffix("…"), keys

    def _places(self) -> Places:
        return Places(runs=self._services.run_list.root, presets=presets.default_root(), settings=default_file())
