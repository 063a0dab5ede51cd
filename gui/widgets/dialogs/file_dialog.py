"""Ask for a file or a folder, beginning in the folder used last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from PySide6.QtWidgets import QFileDialog, QHeaderView, QToolButton, QTreeView, QWidget

from core.language import tr, tr_noop
from gui.style.icons import ButtonIcon
from gui.style.text_size import scaled

ANY_FILE = tr_noop("All files (*)")
WIDTH_PX = 760
"""Width in which the names of files have room beside size, kind and date."""


def python_files() -> str:
    """Return the filters of a dialog that asks for a Python file."""
    return f"{tr('Python files (*.py)')};;{tr(ANY_FILE)}"


def script_files() -> str:
    """Return the filters of a dialog that asks for a script."""
    return f"{tr('Python files and notebooks (*.py *.ipynb)')};;{tr(ANY_FILE)}"


class FileDialog(QFileDialog):
    """Calls a function with what was chosen; open it with `open`."""

    last_folder: ClassVar[str] = ""
    """The folder of the last choice in any of these dialogs; the settings file keeps it."""

    def __init__(
        self, parent: QWidget, title: str, chosen: Callable[[str], object], *, begin: str = "", names: str = ""
    ) -> None:
        """`begin`: where to begin if it exists, otherwise in the folder used last. `names`: the files to show."""
        folder = next((each for each in (begin, self.last_folder) if each and Path(each).is_dir()), "")
        super().__init__(parent, title, folder, names or tr(ANY_FILE))
        self.setFileMode(QFileDialog.FileMode.ExistingFile)
        self.fileSelected.connect(chosen)
        self.fileSelected.connect(_remember)
        self.finished.connect(self.deleteLater)
        self._draw_arrows()
        self._widen_columns()

    def ask_for_folder(self) -> None:
        """Offer folders in place of files."""
        self.setFileMode(QFileDialog.FileMode.Directory)
        self.setOption(QFileDialog.Option.ShowDirsOnly)

    def _draw_arrows(self) -> None:
        """Draw the arrows in the colour of the text: Qt's own are black in every theme."""
        for name, arrow in (("backButton", "left"), ("forwardButton", "right"), ("toParentButton", "up")):
            button = self.findChild(QToolButton, name)
            if button is not None:  # the desktop's dialog has none
                ButtonIcon(button, arrow, "text")

    def _widen_columns(self) -> None:
        """Show size, kind and date whole, and give the names the rest: Qt cuts the texts of a larger font."""
        rows = self.findChild(QTreeView, "treeView")
        if rows is None:  # as above
            return
        header = rows.header()
        for column in range(1, header.count()):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.resize(max(self.width(), scaled(WIDTH_PX)), self.height())


def _remember(path: str) -> None:
    FileDialog.last_folder = str(path if Path(path).is_dir() else Path(path).parent)
