"""Copy a built-in workload to a file: the action, the dialog that asks where, and what follows."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox

from core.catalog import recipes
from core.catalog.recipes import standalone
from gui.widgets.dialogs import FileDialog


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The files that were opened in an editor."""
    files: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: files.append(url.toLocalFile()) or True)
    return files


@pytest.fixture
def panel(form, monkeypatch, tmp_path):
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr(FileDialog, "last_folder", str(tmp_path / "mine"))
    form.choose(form.recipe, "digits_mlp")
    return form


def ask(panel) -> FileDialog:
    panel.window.panels.menu.action("copyRecipe").trigger()
    return panel.window.findChild(FileDialog, "copyRecipeDialog")


def test_copied_workload_is_chosen_and_opened_in_an_editor(panel, opened, tmp_path) -> None:
    dialog = ask(panel)
    target = tmp_path / "mine" / "digits_mlp.py"
    assert dialog.selectedFiles() == [str(target)]
    dialog.accept()
    panel.until(lambda: panel.recipe.currentData() == str(target), "the copy to be chosen")
    assert target.read_text() == standalone(recipes.find("digits_mlp", "pytorch"))
    assert opened == [str(target)]
    panel.tick("cpu:0")
    panel.until_ready()


@pytest.mark.slow
def test_file_that_exists_is_replaced_only_after_a_question(panel, opened, tmp_path) -> None:
    target = tmp_path / "mine" / "digits_mlp.py"
    target.write_text("precious")
    dialog = ask(panel)
    asked: list[str] = []

    def answer() -> None:
        """Answer the question as soon as it is shown: it keeps `accept` from returning."""
        for box in dialog.findChildren(QMessageBox):
            asked.append(box.text())
            box.done(QMessageBox.StandardButton.No)

    timer = QTimer(interval=20)
    timer.timeout.connect(answer)
    timer.start()
    dialog.accept()
    timer.stop()
    assert "already exists" in asked[0]
    assert target.read_text() == "precious"
    assert opened == []


def test_copy_that_cannot_be_written_or_is_not_needed_is_explained(panel, opened, tmp_path) -> None:
    before = panel.recipe.currentData()
    ask(panel).fileSelected.emit(str(tmp_path / "no such folder" / "mine.py"))
    why_not = "mine.py could not be written: No such file or directory. Name another file."
    assert why_not in panel.message("messageStrip")
    assert (opened, panel.recipe.currentData()) == ([], before)
    own = tmp_path / "own.py"
    own.write_text("def model(): ...\ndef train_data(): ...\n")
    panel.open_recipe(own)
    dialogs = panel.window.findChildren(FileDialog)
    ask(panel)
    assert panel.window.findChildren(FileDialog) == dialogs, "nothing is asked"
    assert "own.py is a file of your own, which you can change as it is." in panel.message("messageStrip")


def test_copy_without_an_editor_says_so_and_is_chosen(panel, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _: False)
    panel.choose(panel.framework, "keras")
    ask(panel).accept()
    target = tmp_path / "mine" / "digits_mlp.py"
    assert f"The desktop has no program that opens {target}." in panel.message("messageStrip")
    assert panel.recipe.currentData() == str(target)
    assert "import keras" in target.read_text()


def test_action_is_in_the_menu_file_and_in_the_context_menu_of_the_workloads(panel) -> None:
    action = panel.window.panels.menu.action("copyRecipe")
    assert action in panel.window.panels.menu.file.actions()
    assert panel.recipe.actions() == [action]
    assert panel.recipe.contextMenuPolicy() == Qt.ContextMenuPolicy.ActionsContextMenu
