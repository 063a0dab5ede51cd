"""Ask for a file or a folder, beginning in the folder used last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtWidgets import QFileDialog

from core.language import tr_noop

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

ANY_FILE = tr_noop("All files (*)")
PYTHON_FILES = f"Python files (*.py);;{ANY_FILE}"


class FileDialog(QFileDialog):
    """Calls a function with what was chosen; open it with `open`."""

    last_folder: ClassVar[str] = ""
    """The folder of the last choice in any of these dialogs; the settings file keeps it."""

    def __init__(
        self, parent: QWidget, title: str, chosen: Callable[[str], object], *, begin: str = "", names: str = ANY_FILE
    ) -> None:
        """`begin`: where to begin if it exists, otherwise in the folder used last. `names`: which files to show."""
        folder = next((each for each in (begin, self.last_folder) if each and Path(each).is_dir()), "")
        super().__init__(parent, title, folder, names)
        self.setFileMode(QFileDialog.FileMode.ExistingFile)
        self.fileSelected.connect(chosen)
        self.fileSelected.connect(_remember)
        self.finished.connect(self.deleteLater)

    def ask_for_folder(self) -> None:
        """Offer folders in place of files."""
        self.setFileMode(QFileDialog.FileMode.Directory)
        self.setOption(QFileDialog.Option.ShowDirsOnly)


def _remember(path: str) -> None:
    FileDialog.last_folder = str(path if Path(path).is_dir() else Path(path).parent)
