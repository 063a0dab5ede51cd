"""The dialog that asks for a file."""

import pytest
from PySide6.QtWidgets import QDialogButtonBox, QPushButton, QStyle, QToolButton, QTreeView, QWidget

from gui.base import theme as themes
from gui.widgets.dialogs import FileDialog, python_files

pytestmark = pytest.mark.styled


@pytest.fixture
def last_folder(monkeypatch):
    monkeypatch.setattr(FileDialog, "last_folder", "")


ICON_PX = 6
"""Least width of the drawn part of an icon."""


def painted_width(button: QToolButton) -> int:
    """Return the width of what is drawn inside the border of a button."""
    image = button.grab(button.rect().adjusted(3, 3, -3, -3)).toImage()
    ground = image.pixelColor(0, 0)
    rows = range(image.height())
    drawn = [x for x in range(image.width()) if any(image.pixelColor(x, y) != ground for y in rows)]
    return max(drawn) - min(drawn) + 1 if drawn else 0


@pytest.mark.slow
def test_dialog_begins_in_folder_used_last(drive, tmp_path, last_folder) -> None:
    recipe = tmp_path / "mine" / "recipe.py"
    recipe.parent.mkdir()
    recipe.write_text("def model(): ...\n")
    panel = drive()
    panel.window.findChild(QPushButton, "openRecipeButton").click()
    panel.window.findChild(FileDialog).fileSelected.emit(str(recipe))
    assert panel.recipe.currentData() == str(recipe)
    panel.window.close()
    FileDialog.last_folder = ""
    again = drive()
    again.choose(again.recipe, "digits_mlp")
    again.window.findChild(QPushButton, "openRecipeButton").click()
    assert again.window.findChild(FileDialog).directory().absolutePath() == str(recipe.parent)


def test_dialog_has_icons_on_tool_buttons_only_and_whole_sizes_and_dates(hold, qtbot, qapp, tmp_path, last_folder):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "a_rather_long_name_of_a_recipe_that_trains_cats.py").write_text("x" * 1_234_567)
    themes.apply(qapp, themes.DARK)
    FileDialog.last_folder = str(folder)
    dialog = FileDialog(hold(QWidget()), "Open a recipe", str, names=python_files())
    dialog.open()
    assert dialog.directory().absolutePath() == str(folder)
    rows = dialog.findChild(QTreeView, "treeView")
    qtbot.waitUntil(lambda: rows.model().rowCount(rows.rootIndex()) == 1)
    columns = range(1, rows.header().count())
    qtbot.waitUntil(lambda: all(rows.columnWidth(each) >= rows.sizeHintForColumn(each) for each in columns))
    tools = [each for each in dialog.findChildren(QToolButton) if each.isVisible()]
    assert len(tools) >= 5
    assert {each.objectName() for each in tools if painted_width(each) < ICON_PX} == set()
    arrow = dialog.findChild(QToolButton, "toParentButton").grab().toImage()
    brightest = max(arrow.pixelColor(x, y).lightness() for x in range(arrow.width()) for y in range(arrow.height()))
    assert brightest > 180, "an arrow on a dark ground is light"
    box = dialog.findChild(QDialogButtonBox)
    assert not dialog.style().styleHint(QStyle.StyleHint.SH_DialogButtonBox_ButtonsHaveIcons, None, box)
    assert all(button.icon().isNull() for button in box.buttons())
    dialog.reject()
