"""The table of the window: what a user sees, sorts, selects and copies, whatever its rows are."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtTest import QAbstractItemModelTester

from core.devices.device import Survey
from core.runs.outputs import OutputFile, Outputs
from core.schema.event_kinds import ProcessInfo
from core.table import Table
from core.text import one_line
from gui.base.formatting import moment
from gui.base.theme import DARK, LIGHT
from gui.features.memory.processes import MAX_COMMAND, KnownRuns, ProcessEntry, ProcessesTab, process_rows
from gui.features.memory.tab import MemoryBar, MemoryTab
from gui.features.run.outputs import OutputsTab
from gui.widgets.table import STRETCH, Column, RowsTable
from tests.support.recorded import GB
from tests.support.tables import cell, cells, headings, middle
from tests.window.driving import choose_in_menu, show_theme


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
)
PEAR, APPLE, PLUM = Fruit(name="pear", grams=150), Fruit(name="apple", grams=180), Fruit(name="plum", grams=None)


@pytest.fixture
def table(hold) -> RowsTable[Fruit]:
    made = RowsTable("fruits", "Fruits", COLUMNS, key=lambda row: row.name, sorted_by="grams",
                     open_keys=[Qt.Key.Key_Return])
    made.offer("fruitMenu", "fruits")
    made.show_rows([PEAR, PLUM, APPLE])
    return hold(made, 400, 90)


def names(table: RowsTable[Fruit]) -> list[str]:
    return [row.name for row in table.rows]


def test_cells_headings_and_menu_come_from_the_columns(table) -> None:
    assert headings(table) == ["Name", "Weight ▾"]
    assert cells(table) == [("apple", "180 g"), ("pear", "150 g"), ("plum", "–")], "a missing value is no zero"
    assert cell(table, 0, 0, Qt.ItemDataRole.ToolTipRole) == "<p>&lt;b&gt;apple</p>"
    assert cell(table, 0, 1, Qt.ItemDataRole.ToolTipRole) is None
    aligned = [Qt.AlignmentFlag(cell(table, 0, at, Qt.ItemDataRole.TextAlignmentRole)) for at in (0, 1)]
    assert [Qt.AlignmentFlag.AlignRight in each for each in aligned] == [False, True]
    assert table.model().headerData(1, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) == "Of one fruit"
    asked = asked_for(table)
    assert [each[:2] for each in asked] == [("markdown", "fruits"), ("csv", "fruits"), ("file", "fruits")]
    shown = asked[0][2]
    assert shown.markdown().splitlines()[0] == "| Name | Weight |"
    assert shown.markdown().splitlines()[2:] == ["| apple | 180 g |", "| pear | 150 g |", "| plum | – |"]
    assert shown.csv().splitlines() == ["id,name,grams", "a,apple,180", "p,pear,150", "p,plum,"]


def test_a_click_on_a_heading_sorts_and_rows_have_the_tones_of_the_theme(table) -> None:
    table.selectRow(0)
    clicked = table.horizontalHeader().sectionClicked
    clicked.emit(1)
    assert (names(table), headings(table)) == (["pear", "apple", "plum"], ["Name", "Weight ▴"])
    clicked.emit(0)
    assert (names(table), headings(table)) == (["apple", "pear", "plum"], ["Name ▴", "Weight"])
    assert table.chosen() == APPLE
    table.show_rows([PLUM, APPLE])
    assert names(table) == ["apple", "plum"], "new rows are sorted, too"
    table.show_rows([PEAR, replace(APPLE, is_ripe=False)])

    def colours() -> list[str]:
        return [cell(table, row, 0, Qt.ItemDataRole.ForegroundRole).name() for row in (0, 1)]

    assert colours() == [DARK.bad, DARK.text]
    assert [cell(table, row, 0, Qt.ItemDataRole.FontRole).bold() for row in (0, 1)] == [False, True]
    show_theme(LIGHT)
    assert colours() == [LIGHT.bad, LIGHT.text]


def test_selected_row_stays_selected_in_other_columns_too(table) -> None:
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
    table.choose("pear")
    table.show_columns(COLUMNS[1:2], [PEAR, APPLE])
    assert (headings(table), table.chosen()) == (["Name"], PEAR)
    chosen = []
    table.chosen_changed.connect(lambda: chosen.append(table.chosen()))
    table.show_columns(COLUMNS, [APPLE])
    assert chosen == [None]


def test_a_row_is_opened_by_key_and_double_click_and_drawn_again_when_changed(table, qtbot) -> None:
    opened = []
    table.row_opened.connect(opened.append)
    table.selectRow(0)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=middle(table, 1))
    qtbot.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton, pos=middle(table, 1))
    assert opened == [APPLE, PEAR]
    table.clearSelection()
    table.selectionModel().setCurrentIndex(table.model().index(2, 0), QItemSelectionModel.SelectionFlag.NoUpdate)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert opened[2:] == [table.rows[2]], "the current row, as Tab leaves it, is opened without being selected"
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
    table.show_columns(COLUMNS[1:2], many)
    assert table.verticalScrollBar().value() == 200


def asked_for(table: RowsTable) -> list[tuple[str, str, Table]]:
    """Choose each entry of a table's menu that copies or saves it, and return what that asks for."""
    asked = []
    table.table_asked.connect(lambda *of: asked.append(of))
    for text in ("Copy table as Markdown", "Copy table as CSV", "Save table…"):
        choose_in_menu(table, text)
    return asked


# -- what the tables of the window give to people and to programs ----------------------------------


def memory(hold) -> MemoryTab:
    tab = hold(MemoryTab())
    tab.show_rows([
        MemoryBar(
            id="GPU-1", label="GPU 0", colour="#4d9bff", total_bytes=24 * GB, parts=(GB, 0, None, GB // 2, 3 * GB)
        ),
        MemoryBar(id="GPU-2", label="GPU 1", colour="#4d9bff", total_bytes=None, parts=(None,) * 5, words="asleep"),
    ])
    return tab


def processes(hold) -> ProcessesTab:
    info = ProcessInfo(
        pid=4711, created=1.0, device_id="GPU-1", memory_used_bytes=3 * GB, name="python", user="anna",
        command=COMMAND, age_s=90.26, run_id="this", state="S", ours=True,
    )
    runs = KnownRuns(shown="this", names={"this": "digits"}, living=frozenset())
    entries = [ProcessEntry(info=info, devices=("GPU-1", "GPU-2"), on_gpus={"GPU-1": 2 * GB, "GPU-2": None})]
    tab = hold(ProcessesTab())
    labels, survey = {"GPU-1": "GPU 0", "GPU-2": "GPU 1"}, Survey()
    tab.show_rows(process_rows(entries, labels, runs, {}, survey), empty="", problem="")
    return tab


def outputs(hold) -> OutputsTab:
    tab = hold(OutputsTab())
    file = OutputFile(path=Path("/run/=words.txt"), name="=words.txt", size_bytes=5, modified=1_750_000_000)
    tab.show_outputs(Outputs(files=(file,), is_complete=True))
    return tab


COMMAND = f"python train.py {'x' * 3000}"
WHEN = time.localtime(1_750_000_000)


@pytest.mark.parametrize(
    ("made", "markdown", "csv"),
    [
        (
            memory,
            ["| Device | Memory, GB | This run | Other runs | Others | Unclaimed | Free |",
             "| GPU 0 | 24.0 | 1.0 | 0 | – | 0.50 | 3.0 |", "| GPU 1 | asleep | – | – | – | – | – |"],
            ["device,label,total_bytes,this_run_bytes,other_runs_bytes,others_bytes,unclaimed_bytes,free_bytes,note",
             f"GPU-1,GPU 0,{24 * GB},{GB},0,,{GB // 2},{3 * GB},", "GPU-2,GPU 1,,,,,,,asleep"],
        ),
        (
            processes,
            ["| Process | Owner | % SM | Memory | Host | CPU | Time | Whose run | Command |",
             *(f"| python 4711 | anna | – | {size} | – | – | 1:30 | this run "
               f"| {one_line(COMMAND, MAX_COMMAND)} |" for size in ("2.0 GB", "–"))],
            ["device,pid,name,user,share_percent,memory_bytes,resident_bytes,cpu_percent,age_s,run,command",
             f"GPU-1,4711,python,anna,,{2 * GB},,,90.3,this,{COMMAND}",
             f"GPU-2,4711,python,anna,,,,,90.3,this,{COMMAND}"],
        ),
        (
            outputs,
            ["| File | Size | Time |", f"| =words.txt | 1 kB | {moment(1_750_000_000, time.time())} |"],
            ["file,size_bytes,modified", f"'=words.txt,5,{time.strftime('%Y-%m-%dT%H:%M:%S%z', WHEN)[:-2]}:00"],
        ),
    ],
)
def test_a_table_is_copied_as_it_is_shown_and_unrounded(hold, made, markdown, csv) -> None:
    """A missing reading is no zero, and a text no formula of a spreadsheet."""
    shown = asked_for(made(hold).table)[0][2]
    heading, _, *rows = shown.markdown().splitlines()
    assert [heading, *rows] == markdown
    assert shown.csv().splitlines() == csv
