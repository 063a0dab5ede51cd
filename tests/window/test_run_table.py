"""The list of runs as a table: columns, order, filter, ticks, opening, comparing, thousands of runs."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QWidget

from core.history.summary import RunSummary
from core.runs.facts import RunState
from gui.features.runlist import view
from gui.features.runlist.table import RunTable, run_columns
from tests.support.running import make_spec, script_spec
from tests.support.tables import headings
from tests.support.written_runs import BEGAN, values, write_run
from tests.window.test_missed import finish, write_live

CONTROL = Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton


def write_runs(root: Path, tmp_path: Path) -> None:
    """Write three runs of a recipe and three of a script, the newest last, with losses of which some are missing."""
    program = tmp_path / "train.py"
    program.touch()
    specs = [make_spec("digits_mlp", learning_rate=rate, seed=4) for rate in (0.1, 0.02, 0.1)]
    arguments = ("--width", "9", "--name", "z"), ("--width", "10", "--name", "y"), ()
    specs += [script_spec(program, *each, cwd=tmp_path) for each in arguments]
    losses = (3.0, 20.0, None, 1.0, float("nan"), 0.5)
    for at, (spec, loss) in enumerate(zip(specs, losses, strict=True)):
        end = 60.0 * (at + 1)
        states = [(0.0, "starting"), (end - 1, "releasing"), (end, "failed" if at == 5 else "finished")]
        events = [] if loss is None else [values(1, 1, 1, loss=[loss])]
        write_run(root, f"20260101-00000{at}-{'abcdef'[at]}", events, spec=spec, states=states)


@pytest.fixture
def panel(assemble, runs_root: Path, tmp_path: Path):
    write_runs(runs_root, tmp_path)
    panel = assemble("run", "history", "queue", "table", "comparison")
    panel.until(lambda: panel.runs.count() == 6, "the runs")
    return panel


def opened(panel) -> RunTable:
    panel.qtbot.mouseClick(panel.window.findChild(QPushButton, "tableFace"), LEFT)
    return panel.window.findChild(RunTable)


def names(run_dirs) -> str:
    return "".join(str(each)[-1] for each in run_dirs)


def shown(table: RunTable) -> str:
    return names(table.keys)


def column(table: RunTable, heading: str) -> list[str]:
    at = [each.partition(" ")[0] for each in headings(table)].index(heading)
    return [table.model().index(row, at).data() for row in range(table.model().rowCount())]


def click_heading(panel, table: RunTable, heading: str) -> str:
    """Click a heading; return the order of the rows, which is also that of the list."""
    header = table.horizontalHeader()
    at = [each.partition(" ")[0] for each in headings(table)].index(heading)
    table.scrollTo(table.model().index(0, at))
    place = QPoint(header.sectionViewportPosition(at) + header.sectionSize(at) // 2, header.height() // 2)
    panel.qtbot.mouseClick(header.viewport(), LEFT, pos=place)
    listed = [panel.runs.item(row).data(Qt.ItemDataRole.UserRole) for row in range(panel.runs.count())]
    assert names(listed) == shown(table)
    return shown(table)


def click_row(panel, table: RunTable, row: int, *, double: bool = False, keys=Qt.KeyboardModifier.NoModifier) -> None:
    place = table.visualRect(table.model().index(row, 1)).center()
    panel.qtbot.mouseClick(table.viewport(), LEFT, keys, place)
    if double:
        panel.qtbot.mouseDClick(table.viewport(), LEFT, keys, place)


def ask_for_menu(table: RunTable) -> None:
    """Press the key for the menu."""
    at, reason = QPoint(5, 5), QContextMenuEvent.Reason.Keyboard
    QApplication.sendEvent(table.viewport(), QContextMenuEvent(reason, at, table.viewport().mapToGlobal(at)))


def test_columns_are_results_and_the_settings_that_differ(panel) -> None:
    table = opened(panel)
    assert headings(table) == [
        "State", "Name", "Started", "Result", "recipe", "script", "lr", "name", "width", "Duration", "Devices",
    ], "the seed is the same in all"
    assert column(table, "Result") == ["loss 0.500", "loss nan", "loss 1.00", "–", "loss 20.0", "loss 3.00"]
    assert column(table, "lr") == ["–", "–", "–", "0.1", "0.02", "0.1"]
    assert column(table, "width") == ["–", "10", "9", "–", "–", "–"]
    assert column(table, "Duration") == ["6:00", "5:00", "4:00", "3:00", "2:00", "1:00"]
    panel.until(lambda: column(table, "State")[1] == "NaN at step 1", "what went wrong")
    assert column(table, "State")[2:] == ["finished"] * 4
    panel.window.findChild(QLineEdit, "runFilter").setText("framework:script")
    panel.until(lambda: shown(table) == "fed", "the runs that the filter finds")
    assert "lr" not in headings(table)
    assert "script" not in headings(table), "it is the same in all"


def test_headings_sort_table_and_list_and_what_is_missing_comes_last_in_both_directions(panel, runs_root: Path) -> None:
    table = opened(panel)
    field = panel.window.findChild(QLineEdit, "runFilter")
    field.setText("state!=lost")
    assert click_heading(panel, table, "width") == "defcba", "9 is less than 10"
    assert headings(table)[8] == "width ▴"
    assert field.text() == "state!=lost sort:width"
    assert click_heading(panel, table, "width") == "edfcba"
    assert click_heading(panel, table, "width") == "fedcba", "the third click sorts no more"
    assert field.text() == "state!=lost"
    assert click_heading(panel, table, "Result") == "fdabec"
    assert click_heading(panel, table, "Result") == "badfec"
    assert click_heading(panel, table, "lr") == "bcafed", "equal values keep their order: the newest first"
    assert click_heading(panel, table, "name") == "edfcba"
    assert field.text().endswith("sort:setting.--name"), "the argument, and not the name of the run"
    assert click_heading(panel, table, "Duration") == "abcdef"
    write_run(runs_root, "20260102-000000-g", spec=make_spec("digits_mlp", learning_rate=0.3),
              states=[(0.0, "starting"), (89.0, "releasing"), (90.0, "finished")])
    panel.until(lambda: shown(table) == "agbcdef", "the new run in its place")
    assert headings(table)[-3:] == ["seed", "Duration ▴", "Devices"]


def test_states_and_runs_follow_while_the_table_is_open(panel, runs_root: Path) -> None:
    table = opened(panel)
    live = write_live(runs_root, "20251231-000000-live")
    panel.until(lambda: len(table.keys) == 7, "the new run")
    assert table.keys[0] == str(live), "what runs comes first"
    panel.until(lambda: column(table, "State")[0] == "running", "its state")
    finish(live, "failed")
    panel.until(lambda: "failed" in column(table, "State"), "its end")


def test_ticks_are_those_of_the_list_also_beyond_its_end_and_are_compared(
    assemble, runs_root: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(view, "ROWS", 3)
    write_runs(runs_root, tmp_path)
    panel = assemble("run", "history", "queue", "table", "comparison")
    panel.until(lambda: panel.runs.count() == 3, "the first runs")
    panel.runs.tick(panel.runs.listed)
    table = opened(panel)
    assert names(table.ticked) == "fed"
    click_row(panel, table, 1, keys=CONTROL)
    click_row(panel, table, 5, keys=CONTROL)
    assert (names(panel.runs.ticked), names(table.ticked)) == ("fda", "fda")
    assert panel.window.findChild(QPushButton, "compareButton").text() == "Compare 3 runs"
    panel.window.findChild(QLineEdit, "runFilter").setText("sort:duration")
    panel.until(lambda: shown(table) == "abcdef", "the other order")
    assert (names(table.ticked), {*names(panel.runs.ticked)}) == ("adf", {*"adf"})
    panel.runs.item(0).setSelected(False)
    assert names(table.ticked) == "df"
    table.setFocus()
    panel.qtbot.keyClick(table, Qt.Key.Key_Return)
    comparison = panel.window.controllers.comparison
    assert comparison.is_open
    assert not table.isVisible()
    assert panel.window.focusWidget() is panel.runs
    panel.until(lambda: len(comparison.reader.chosen) == 2, "both")
    panel.window.panels.comparison.close_button.setFocus()
    assert comparison.leave()
    assert panel.window.focusWidget() is panel.runs
    assert table.isVisible(), "it comes back"
    assert table.ticked == panel.runs.ticked == []
    table.selectAll()
    assert len(panel.runs.ticked) == 6
    panel.qtbot.mouseClick(panel.window.panels.several.none, LEFT)
    assert table.ticked == panel.runs.ticked == []


def test_a_run_is_opened_in_the_list_and_the_plots_come_back(assemble, runs_root: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(view, "ROWS", 3)
    write_runs(runs_root, tmp_path)
    panel = assemble("run", "history", "queue", "table", "comparison")
    panel.until(lambda: panel.runs.count() == 3, "the first runs")
    details, plots = panel.window.findChild(QWidget, "logDock"), panel.window.panels.plots
    table = opened(panel)
    assert (table.isVisible(), plots.isVisible(), details.isVisible()) == (True, False, False)
    click_row(panel, table, 4)
    assert panel.run is None, "it is ticked, and not shown"
    click_row(panel, table, 4, double=True)
    assert panel.run.dir.name.endswith("-b")
    assert (table.isVisible(), plots.isVisible(), details.isVisible()) == (False, True, True)
    assert names(panel.runs.ticked) == "b", "the list reaches it now"
    opened(panel)
    assert table.isVisible()
    panel.runs.choose(panel.runs.item(0).data(Qt.ItemDataRole.UserRole))
    assert not table.isVisible(), "a click in the list shows a run, too"
    opened(panel)
    assert panel.window.controllers.table.leave()
    assert not panel.window.controllers.table.leave()
    panel.runs.tick(panel.runs.listed)
    panel.window.panels.actions.do("compare", panel.runs.ticked)
    assert opened(panel).isVisible(), "it ends a comparison"
    assert not panel.window.controllers.comparison.is_open


def test_keys_alone_open_the_table_and_a_run_and_the_menu_is_that_of_the_list(panel) -> None:
    panel.window.activateWindow()
    panel.qtbot.waitUntil(panel.window.isActiveWindow)
    panel.runs.setFocus()
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_T, CONTROL)
    table = panel.window.findChild(RunTable)
    assert table.hasFocus()
    assert panel.window.panels.menu.action("tableOfRuns").isChecked()
    panel.qtbot.keyClick(table, Qt.Key.Key_Down)
    assert names(table.ticked) == names(panel.runs.ticked) == "e"
    ask_for_menu(table)
    assert panel.runs.run_menu.isVisible()
    assert panel.runs.run_menu.run_dir == table.ticked[0]
    panel.runs.run_menu.close()
    panel.qtbot.keyClick(table, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    ask_for_menu(table)
    assert panel.runs.several_menu.isVisible()
    panel.runs.several_menu.close()
    panel.qtbot.keyClick(table, Qt.Key.Key_Down)
    panel.qtbot.keyClick(table, Qt.Key.Key_Return)
    assert names([panel.run.dir]) == "c"
    assert panel.runs.hasFocus()
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_T, CONTROL)
    panel.qtbot.keyClick(table, Qt.Key.Key_T, CONTROL)
    assert not table.isVisible()


def test_ten_thousand_runs_have_no_widgets_and_cells_only_where_they_are_seen(hold) -> None:
    runs = [
        RunSummary(dir=Path(f"/runs/{number}"), name=f"run {number}", state=RunState.FINISHED, started=BEGAN,
                   ended=BEGAN + number, error=None, last_loss=1 / (1 + number), step=1, plan=None,
                   settings={"recipe": "/r.py", "seed": number})
        for number in range(10_000)
    ]
    table = hold(RunTable(), 900, 400)
    before = len(table.findChildren(QWidget))
    asked = []
    columns = run_columns(["seed"])
    name = columns[1].text
    columns[1] = type(columns[1])("name", title="Name", text=lambda run: asked.append(run) or name(run))
    table.show_runs(runs, columns)
    table.repaint()
    assert table.model().rowCount() == 10_000
    assert len(table.findChildren(QWidget)) == before
    table.show_runs(runs[::-1], columns)
    table.repaint()
    assert table.model().index(0, 1).data() == "run 9999"
    assert 0 < len(asked) < 500
    few = [*runs[:44], replace(runs[44], name="a longer name")]
    table.resize(900, 1300)
    table.show_runs(few, columns)
    assert table.columnWidth(1) >= table.sizeHintForIndex(table.model().index(44, 1)).width(), "no row in sight is cut"


def test_what_lies_over_the_plots_does_not_cover_the_table(assemble, runs_root: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "recorded_runs" / "failed", runs_root / "20260101-000000-failed")
    panel = assemble("run", "history", "table")
    panel.open_run()
    failure = panel.window.panels.failure
    panel.until(failure.isVisible, "the card about the failure")
    table = opened(panel)
    assert table.isVisible()
    assert not failure.isVisible()
    panel.qtbot.mouseClick(panel.window.findChild(QPushButton, "listFace"), LEFT)
    assert failure.isVisible()
