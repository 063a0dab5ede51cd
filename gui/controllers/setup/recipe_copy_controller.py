"""Copy the chosen workload to a file of the user's, choose that file, and open it in an editor."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog

from core.catalog import recipe_copy
from core.catalog.recipes import RecipeFile
from core.errors import RunError
from core.language import tr
from core.series.report import export_bytes
from gui.controllers.window.dock_layout import MainPanels
from gui.controllers.window.help_controller import HelpController
from gui.widgets.dialogs.file_dialog import FileDialog, python_files


class RecipeCopyController(QObject):
    """The action is in the menu File and in the context menu of the workloads."""

    def __init__(self, panels: MainPanels, help_: HelpController) -> None:
        super().__init__()
        self._panels, self._help = panels, help_
        action = panels.menu.action("copyRecipe")
        action.triggered.connect(lambda _: self._ask_where())
        panels.setup.add_recipe_action(action)

    def _ask_where(self) -> None:
        """Ask for the new file. The dialog itself asks before it takes the name of a file that exists."""
        try:
            recipe = self._panels.setup.chosen_recipe()
            recipe_copy.check_source(recipe)
        except ValueError as error:
            self._panels.message.show_message(str(error), "bad")
            return
        begin = FileDialog.last_folder or str(Path.home())
        dialog = FileDialog(
            self._panels.window, tr("Copy {name} as a recipe", name=recipe.name),
            lambda path: self._copy(recipe, Path(path)), begin=begin, names=python_files(),
        )  # fmt: skip
        dialog.setObjectName("copyRecipeDialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.setDefaultSuffix("py")
        dialog.selectFile(f"{recipe.name}.py")
        dialog.open()

    def _copy(self, recipe: RecipeFile, target: Path) -> None:
        try:
            recipe_copy.check_copy(recipe, target)
            export_bytes(recipe_copy.standalone(recipe).encode(), target)
        except (RunError, ValueError) as error:
            self._panels.message.show_message(str(error), "bad")
            return
        self._panels.setup.open_recipe(target)
        self._panels.message.show_passing(tr("Copied {name} to {path}.", name=recipe.name, path=target))
        self._help.open_path(target)
