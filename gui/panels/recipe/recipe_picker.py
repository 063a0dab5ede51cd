"""Chooses what to train: a workload that ships, or a file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QPushButton, QWidget

from core.catalog import recipes
from gui.widgets.forms.fields import choice, select

USUAL = "digits_cnn"
"""What is offered first: its data ship, and it takes seconds."""


class RecipePicker(QWidget):
    """A box with the built-in ones and the files that were opened, and a button that opens another."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.box = choice("recipeBox", "Workload", "What to train: a workload that ships, or a recipe file of yours")
        self._open = QPushButton("…")
        self._open.setObjectName("openRecipeButton")
        self._open.setAccessibleName("Open a recipe file")
        self._open.setToolTip("Open a Python file of yours with model() and train_data(), or drop it here")
        self._open.setStyleSheet("QPushButton { padding: 4px 8px; }")
        self._framework = ""
        self._open.clicked.connect(self._ask)
        self.box.currentIndexChanged.connect(lambda _: self.changed.emit())
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(7)
        row.addWidget(self.box, 1)
        row.addWidget(self._open)
        self.setFocusProxy(self.box)

    @property
    def reference(self) -> str:
        """A built-in name, or the path of a file."""
        return str(self.box.currentData() or "")

    def show_framework(self, framework: str, reference: str) -> None:
        """Offer the workloads that ship for a framework, and the opened files; choose this one, if it is offered."""
        if framework == self._framework:
            return
        self._framework = framework
        before, files = self.reference, self.files()
        self.box.blockSignals(True)
        self.box.clear()
        for recipe in recipes.built_in(framework):
            self._add(recipe.name, recipe.name, f"Built in: {recipe.summary}")
        for path in files:
            self._add(Path(path).name, path, path)
        select(self.box, USUAL)
        self.choose(reference)
        self.box.blockSignals(False)
        if self.reference != before:
            self.changed.emit()

    def open_file(self, path: Path) -> None:
        """Choose a file. Whether it can be used is judged with all other choices."""
        reference = str(path.absolute())
        if not select(self.box, reference):
            self._add(path.name, reference, reference)
            select(self.box, reference)

    def choose(self, reference: str) -> None:
        """Choose by a built-in name or a path; one that is not there any more is left."""
        if not select(self.box, reference) and recipes.is_file(Path(reference)):
            self.open_file(Path(reference))

    def files(self) -> list[str]:
        """The files that were opened."""
        every = (str(self.box.itemData(row)) for row in range(self.box.count()))
        return [reference for reference in every if "/" in reference]

    def _add(self, title: str, reference: str, tip: str) -> None:
        self.box.addItem(title, reference)
        self.box.setItemData(self.box.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)

    def _ask(self) -> None:
        dialog = QFileDialog(self, "Open a recipe", "", "Python files (*.py);;All files (*)")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self.open_file(Path(path)))
        dialog.open()
