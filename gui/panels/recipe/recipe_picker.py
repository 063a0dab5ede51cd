"""Chooses the workload: a built-in recipe or a file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from core.catalog import recipes
from core.language import tr
from gui.widgets.dialogs.file_dialog import FileDialog, python_files
from gui.widgets.forms.fields import browse_button, choice, select
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import verbatim

DEFAULT = "digits_cnn"
"""Selected at first: its data are included and it trains in seconds."""


class RecipePicker(QWidget):
    """A box with the built-in recipes and the opened files, and a button that opens another file."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.box = choice("recipeBox", tr("Workload"), tr("What to train: a built-in workload or your own recipe file"))
        self.box.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        tip = tr("Open a Python file with model() and train_data(), or drop one here")
        open_button = browse_button("openRecipeButton", tr("Open a recipe file"), tip, self._browse)
        self._framework = ""
        self.box.currentIndexChanged.connect(lambda _: self.changed.emit())
        hbox(self, (self.box, 1), open_button, gap=7)
        self.setFocusProxy(self.box)

    @property
    def reference(self) -> str:
        """The name of a built-in recipe or the path of a file."""
        return str(self.box.currentData() or "")

    def show_framework(self, framework: str, reference: str) -> None:
        """Offer the built-in workloads of a framework and the opened files; select `reference` if it is offered."""
        if framework == self._framework:
            return
        self._framework = framework
        before, files = self.reference, self.files()
        self.box.blockSignals(True)
        self.box.clear()
        for name, summary in recipes.built_in_summaries(framework).items():
            self._add(name, name, tr("Built in: {summary}", summary=tr(summary)))
        for path in files:
            self._add(Path(path).name, path, path)
        select(self.box, DEFAULT)
        self.choose(reference)
        self.box.blockSignals(False)
        if self.reference != before:
            self.changed.emit()

    def open_file(self, path: Path) -> None:
        """Select a file. It is checked later, together with all other choices."""
        reference = str(path.absolute())
        if not select(self.box, reference):
            self._add(path.name, reference, reference)
            select(self.box, reference)

    def choose(self, reference: str) -> None:
        """Select by name or path; ignore one that no longer exists."""
        if not select(self.box, reference) and recipes.is_file(Path(reference)):
            self.open_file(Path(reference))

    def files(self) -> list[str]:
        """Return the opened files."""
        every = (str(self.box.itemData(row)) for row in range(self.box.count()))
        return [reference for reference in every if "/" in reference]

    def _add(self, title: str, reference: str, tip: str) -> None:
        self.box.addItem(title, reference)
        self.box.setItemData(self.box.count() - 1, verbatim(tip), Qt.ItemDataRole.ToolTipRole)

    def _browse(self) -> None:
        begin = str(Path(self.reference).parent) if "/" in self.reference else ""
        choose = lambda path: self.open_file(Path(path))  # noqa: E731
        FileDialog(self, tr("Open a recipe"), choose, begin=begin, names=python_files()).open()
