"""Show the files that functions of the recipe have written, and open them."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from core.language import tr
from core.runs.outputs import OutputFile
from gui.controllers.window.dock_layout import MainPanels
from gui.controllers.window.help_controller import HelpController
from gui.services.services import Services


class OutputController(QObject):
    """Files of another user's run are listed, but neither opened nor read: the desktop might execute them."""

    def __init__(self, panels: MainPanels, services: Services, help_: HelpController) -> None:
        super().__init__()
        self._details, self._message, self._help = panels.details, panels.message, help_
        self._session, self._reader = services.session, services.output_reader
        tab = panels.details.outputs
        self._reader.changed.connect(lambda: self._details.show_outputs(self._reader.outputs))
        self._reader.picture_read.connect(tab.show_picture)
        tab.chosen.connect(self._read_picture)
        tab.open_asked.connect(self._open)

    @property
    def _owner(self) -> str:
        """The other user to whom the shown run belongs; the empty string for one's own."""
        return (self._session.run.owner or "") if self._session.run is not None else ""

    def _read_picture(self, file: OutputFile | None) -> None:
        self._reader.read_picture(None if self._owner else file)

    def _open(self, path: Path) -> None:
        if self._owner:
            sentence = tr(
                "{path} was not opened, since the run belongs to {owner}. Open it yourself if you trust that user.",
                path=path,
                owner=self._owner,
            )
            self._message.show_message(sentence, "warn")
        else:
            self._help.open_path(path)
