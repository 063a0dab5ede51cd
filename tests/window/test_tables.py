"""The table of the window: what a user sees, sorts, selects and copies, whatever its rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QMenu

from gui.style.theme import DARK, LIGHT
from gui.widgets.table import STRETCH, Column, RowsTable
from tests.support.tables import cell, cells, headings, middle
from tests.window.driving import menu_action


@dataclass(frozen=True, kw_only=True)
class Fruit:
    name: str
    grams: float | None
    is_ripe: bool = True


COLUMNS = (
    Column("id", lambda row: row.name[0], None),
    Column("name", lambda row: row.name, "Name", tip=lambda row: f"<b>{row.name}", width_px=STRETCH,
           tone=lambda row: "text" if row.is_ripe else "bad", is_bold=lambda row: row.is_ripe),
    Column("grams", lambda row: row.grams, "Weight", lambda row: None if row.grams is None else f"{row.grams:.0f} g",
           is_number=True, is_descending=True, about="Of one fruit"),
)  # fmt: skip
PEAR, APPLE, PLUM = Fruit(name="pear", grams=150), Fruit(name="apple", grams=180), Fruit(name="plum", grams=None)


@pytest.fixture
def table(qtbot) -> RowsTable[Fruit]:
    made = RowsTable("fruits", "Fruits", COLUMNS, key=lambda row: row.name, sorted_by="grams", theme=DARK,
                     open_keys=[Qt.Key.Key_Return])  # fmt: skip
    qtbot.addWidget(made)
    made.offer("fruitMenu", "fruits", lambda: [("Eat", lambda: None), None])
    made.resize(400, 90)
    made.show_rows([PEAR, PLUM, APPLE])
    made.show()
    return made


def names(table: RowsTable[Fruit]) -> list[str]:
    return [row.name for row in table.rows]


def test_cells_and_headings_come_from_the_columns(table) -> None:
    assert headings(table) == ["Name", "Weight ▾"]
    assert cells(table) == [("apple", "180 g"), ("pear", "150 g"), ("plum", "–")], "a missing value is no zero"
    assert cell(table, 0, 0, Qt.ItemDataRole.ToolTipRole) == "<p>&lt;b&gt;apple</p>"
    assert cell(table, 0, 1, Qt.ItemDataRole.ToolTipRole) is None
    assert [cell(table, 0, at, Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight for at in (0, 1)] == [
        0, Qt.AlignmentFlag.AlignRight,
    ]  # fmt: skip
    assert table.model().headerData(1, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) == "Of one fruit"


def test_a_row_has_the_tones_of_the_theme(table) -> None:
    table.show_rows([PEAR, replace(APPLE, is_ripe=False)])

    def colours() -> list[str]:
        return [cell(table, row, 0, Qt.ItemDataRole.ForegroundRole).name() for row in (0, 1)]

    assert colours() == [DARK.bad, DARK.text]
    assert [cell(table, row, 0, Qt.ItemDataRole.FontRole).bold() for row in (0, 1)] == [False, True]
    table.set_theme(LIGHT)
    assert colours() == [LIGHT.bad, LIGHT.text]


def test_a_click_on_a_heading_sorts_and_unknown_values_are_last(table) -> None:
    table.selectRow(0)
    clicked = table.horizontalHeader().sectionClicked
    clicked.emit(1)
    assert (names(table), headings(table)) == (["pear", "apple", "plum"], ["Name", "Weight ▴"])
    clicked.emit(0)
    assert (names(table), headings(table)) == (["apple", "pear", "plum"], ["Name ▴", "Weight"])
    assert table.chosen() == APPLE
    table.show_rows([PLUM, APPLE])
    assert names(table) == ["apple", "plum"], "new rows are sorted, too"


def test_the_selected_row_stays_selected_and_no_other_row_takes_its_place(table) -> None:
    QAbstractItemModelTester(table.model(), QAbstractItemModelTester.FailureReportingMode.Fatal)
    changes = []
    table.chosen_changed.connect(lambda: changes.append(table.chosen()))
    table.choose("pear")
    heavy = replace(PEAR, grams=300)
    table.show_rows([APPLE, heavy])
    table.show_rows([APPLE, heavy])
    assert (names(table), table.chosen_number()) == (["pear", "apple"], 0)
    table.show_rows([APPLE])
    assert table.chosen() is None
    table.choose("apple")
    table.show_rows([PEAR])
    assert table.chosen() is None, "all rows were selected"
    table.show_rows([])
    table.show_rows([PEAR, APPLE])
    assert table.chosen() is None
    assert [*dict.fromkeys(changes)] == [PEAR, heavy, None, APPLE]


def test_only_what_changed_is_drawn_again_and_the_table_stays_scrolled(table, qtbot) -> None:
    many = [Fruit(name=f"fruit {at}", grams=500 - at) for at in range(50)]
    table.show_rows(many)
    qtbot.waitUntil(lambda: table.verticalScrollBar().maximum() > 200)
    table.verticalScrollBar().setValue(200)
    drawn = []
    table.model().dataChanged.connect(lambda first, last, _: drawn.extend(range(first.row(), last.row() + 1)))
    table.show_rows([*many[:7], replace(many[7], is_ripe=False), *many[8:]])
    assert drawn == [7]
    table.show_rows(many[1:])
    assert table.verticalScrollBar().value() == 200


def test_a_row_is_opened_with_a_key_and_a_double_click(table, qtbot) -> None:
    opened = []
    table.row_opened.connect(opened.append)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert opened == []
    table.selectRow(0)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=middle(table, 1))
    qtbot.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton, pos=middle(table, 1))
    assert opened == [APPLE, PEAR]


def test_the_menu_copies_and_saves_the_table_as_it_is_sorted(table) -> None:
    asked = []
    table.table_asked.connect(lambda *of: asked.append(of))
    table.customContextMenuRequested.emit(QPoint(5, 5))
    menu = next(each for each in table.findChildren(QMenu, "fruitMenu") if each.isVisible())
    assert [each.text() for each in menu.actions()] == [
        "Eat", "", "Copy table as Markdown", "Copy table as CSV", "Save table…",
    ]  # fmt: skip
    for text in ("Copy table as Markdown", "Copy table as CSV", "Save table…"):
        menu_action(menu, text).trigger()
    menu.close()
    assert [each[:2] for each in asked] == [("markdown", "fruits"), ("csv", "fruits"), ("file", "fruits")]
    (*_, shown) = asked[0]
    assert shown.markdown().splitlines()[0] == "| Name | Weight |"
    assert shown.markdown().splitlines()[2:] == ["| apple | 180 g |", "| pear | 150 g |", "| plum | – |"]
    assert shown.csv().splitlines() == ["id,name,grams", "a,apple,180", "p,pear,150", "p,plum,"]
