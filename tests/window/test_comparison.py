"""The comparison in the window: choosing runs, curves, groups, table, cursor, removal, live runs, closing."""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QItemSelectionModel, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QLineEdit, QPushButton, QToolButton

from core.results.measured_run import read_run
from core.schema.events import metrics_line
from gui.base.theme import DARK, LIGHT
from gui.features.compare.reader import ComparedRun, metrics_of, usual_metric
from gui.features.compare.view import ComparisonView
from gui.widgets.table import ROW
from tests.support.running import make_spec
from tests.support.tables import headings
from tests.support.written_runs import BEGAN, values, write_run
from tests.window.driving import menu_action, show_theme

LOSSES = {"a": [4.0, 3.0, 2.0, 1.0], "b": [5.0, 4.0, 3.0, 2.5], "c": [4.0, 3.0, 2.5]}


def write_three(root: Path) -> list[Path]:
    """Write two runs that differ only in the seed, of which one is shorter, and one with another rate."""
    plan = {"t": BEGAN + 0.5, "kind": "plan", "epochs": 2, "steps_per_epoch": 2, "samples_per_epoch": 32}
    settings = {"a": (0.1, 0), "b": (0.2, 0), "c": (0.1, 1)}
    folders = []
    for place, (name, losses) in enumerate(LOSSES.items()):
        rate, seed = settings[name]
        readings = [
            {"t": BEGAN + at, "kind": "sample", "device": "cpu:0", "utilisation_percent": 50.0 + place,
             "memory_used_bytes": (2 + place) * 2**30}
            for at in range(1, 8)
        ]
        events = [plan, values(1, 1, len(losses), loss=losses, **({"rare": [1.0]} if name == "a" else {}))]
        spec = make_spec("digits_mlp", learning_rate=rate, seed=seed)
        folders.append(write_run(root, f"20260101-00000{place}-{name}", events, spec=spec, devices=readings))
    return folders


def tick(panel, *names: str) -> None:
    wanted = [panel.runs.item(row).data(Qt.ItemDataRole.UserRole) for row in range(panel.runs.count())]
    panel.runs.tick([each for each in wanted if each.rpartition("-")[2] in names])


def opened(panel, *names: str) -> ComparisonView:
    """Compare runs, and wait until all of them are drawn and the table is there."""
    panel.until(lambda: panel.runs.count() >= len(names), "the runs")
    tick(panel, *names)
    panel.qtbot.mouseClick(panel.window.findChild(QPushButton, "compareButton"), Qt.MouseButton.LeftButton)
    settle(panel, len(names))
    return panel.window.panels.comparison


def settle(panel, count: int) -> None:
    reader = panel.window.controllers.comparison.reader
    view = panel.window.panels.comparison

    def is_there() -> bool:
        made = reader.comparison
        rows = sum(len(row.runs) for row in made.rows) if made is not None else 0
        return rows == count == len(reader.runs) and len(view.card.table.rows) == len(made.rows)

    panel.until(is_there, "the comparison")
    panel.window.controllers.comparison.draw()


def cells(view: ComparisonView) -> dict[str, list[tuple[str, str]]]:
    """Return value and difference of each cell, by heading."""
    table = view.card.table
    return {
        heading: [
            (table.model().index(row, at).data(), table.model().index(row, at).data(ROW).cells[at].difference)
            for row in range(table.model().rowCount())
        ]
        for at, heading in enumerate(headings(table))
    }


@pytest.fixture
def features(assemble):
    """Return a function that makes what a comparison needs."""
    return partial(assemble, "run", "history", "comparison")


@pytest.fixture
def panel(features, runs_root: Path):
    write_three(runs_root)
    return features()


def test_ticks_are_set_with_boxes_and_keys_below_the_heading_of_a_day(panel, runs_root: Path) -> None:
    runs, bar = panel.runs, panel.window.panels.several

    def click(row: int, *keys: Qt.KeyboardModifier, on_box: bool = False) -> None:
        held = keys[0] if keys else Qt.KeyboardModifier.NoModifier
        corner = runs.visualItemRect(runs.item(row)).bottomRight() - QPoint(12, 12)
        at = corner if on_box else QPoint(60, corner.y())
        panel.qtbot.mouseClick(runs.viewport(), Qt.MouseButton.LeftButton, held, at)

    def ticked() -> list[str]:
        return [each.rpartition("-")[2] for each in runs.ticked]

    click(0)
    assert (ticked(), panel.run.dir.name[-1]) == (["c"], "c"), "a click shows the run"
    assert not bar.isVisible()
    click(2, on_box=True)
    assert (ticked(), panel.run.dir.name[-1]) == (["c", "a"], "c"), "a click on a box ticks it"
    assert bar.isVisible()
    assert bar.compare.text() == "Compare 2 runs"
    click(1, Qt.KeyboardModifier.ControlModifier)
    assert (ticked(), panel.run.dir.name[-1]) == (["c", "b", "a"], "c")
    click(1, Qt.KeyboardModifier.ControlModifier)
    click(2, Qt.KeyboardModifier.ShiftModifier)
    assert panel.run.dir.name[-1] == "c"
    runs.setFocus()
    runs.clearSelection()
    assert not bar.isVisible()
    for row in (0, 2):
        runs.setCurrentRow(row, runs.selectionModel().SelectionFlag.NoUpdate)
        panel.qtbot.keyClick(runs, Qt.Key.Key_Space)
    assert ticked() == ["c", "a"]
    panel.window.services.run_list.changed.emit()
    assert ticked() == ["c", "a"], "a list that is shown anew keeps its ticks"
    panel.qtbot.keyClick(runs, Qt.Key.Key_Escape)
    assert ticked() == []
    write_run(runs_root, "20260102-000000-new")
    write_run(runs_root, "another-name")
    panel.until(lambda: panel.runs.count() == 5, "the runs")
    items = [panel.runs.item(row) for row in range(5)]
    shown = [item.data(ROW) for item in items]
    assert [row.day.partition(" 202")[0] for row in shown] == ["Others", "2 January", "1 January", "", ""]
    assert [row.of_day for row in shown if row.day] == [1, 1, 3]
    heading = panel.runs.visualItemRect(items[2]).topLeft() + QPoint(40, 4)
    before = panel.run
    panel.qtbot.mouseClick(panel.runs.viewport(), Qt.MouseButton.LeftButton, pos=heading)
    assert panel.run is before, "a click on the heading shows no run"
    assert panel.runs.visualItemRect(items[2]).height() > panel.runs.visualItemRect(items[3]).height()


def test_runs_that_differ_in_their_seed_are_a_group_until_each_is_to_be_drawn_alone(panel) -> None:
    view = opened(panel, "a", "b", "c")
    view.plot.controls.smoothing_button.set_weight(0.0)
    panel.window.controllers.comparison.draw()
    assert not panel.window.panels.plots.isVisible()
    assert [entry.name for entry in view.plot.entries] == ["lr 0.1, 2 seeds", "lr 0.2"]
    x, mean = view.plot.drawn["lr 0.1, 2 seeds"]
    assert x.tolist() == [1, 2, 3, 4]
    assert mean[:3].tolist() == [4.0, 3.0, 2.25]
    assert np.isnan(mean[3]), "one run of the group has ended"
    _, low, high = view.plot.bands["lr 0.1, 2 seeds"]
    assert (low[2], high[2]) == (2.0, 2.5)
    assert view.plot.drawn["lr 0.2"][1].tolist() == LOSSES["b"]
    found = cells(view)
    assert [text for text, _ in found["Learning rate"]] == ["0.1", "0.2"]
    assert "Seed" not in found
    assert "Memory" not in found, "no run says what became of it"
    assert found["Best"] == [("1.75 ± 1.1", ""), ("2.5", "+0.75 (+42.9 %)")]
    assert [text for text, _ in found["Best at"]] == ["3.5", "4"]
    assert found["Peak GB"][1] == ("3.00", "±0")
    assert view.card.summary.text().startswith("1 setting differs, ")
    assert "different lengths" in view.card.notices.text()
    reading = view.plot.reading_at(2.0)
    assert [row.value for row in reading.rows] == ["", "4", "3 (3 to 3)"], "from top to bottom"
    assert reading.rows[0].label == "step 2"
    view.plot.controls.group_box.setChecked(False)
    panel.until(lambda: len(view.card.table.rows) == 3, "a row for each run")
    assert list(view.plot.drawn) == ["lr 0.1, seed 1", "lr 0.2", "lr 0.1"]
    assert view.plot.canvas.y_range[0] < 1.0, "every value can be seen, also where the means are above it"
    assert "Seed" in cells(view)
    assert len({entry.colour for entry in view.plot.entries}) == 3


def test_validation_is_the_usual_metric_also_before_the_second_run_is_read(runs_root: Path) -> None:
    events = [values(1, 1, 2, loss=[2.0, 1.0]), values(2, 2, 2, val_loss=[1.5])]
    run = ComparedRun(measured=read_run(write_run(runs_root, "20260101-000000-one", events)))
    assert usual_metric([run], metrics_of([run])) == "val_loss"


def test_plots_share_axis_range_and_cursor_and_one_run_may_have_another_metric(panel) -> None:
    view = opened(panel, "a", "b")
    controls = view.plot.controls
    box = panel.window.findChild(QComboBox, "comparedAxisBox")
    spans = {}
    for axis in ("step", "epoch", "samples", "training", "wall"):
        box.setCurrentIndex(box.findData(axis))
        assert controls.axis == axis
        panel.window.controllers.comparison.draw()
        for plot in view.plots:
            plot.redraw()
        spans[axis] = view.plot.whole_span()
        assert len({plot.canvas.x_range for plot in view.plots}) == 1
        assert np.nanmax(view.utilisation.drawn["lr 0.2"][1]) == 51.0
        assert np.nanmax(view.memory.drawn["lr 0.1"][1]) == 2.0
    assert {axis: spans[axis] for axis in ("step", "epoch", "samples", "training")} == {
        "step": (0, 4), "epoch": (0, 2), "samples": (0, 64), "training": (0, 3),
    }
    assert spans["wall"][1] - spans["wall"][0] == pytest.approx(3)
    view.utilisation.canvas.pointed.emit(spans["wall"][0] + 1)
    assert view.plot.crosshair.isVisible()
    assert view.plot.crosshair.value() == spans["wall"][0] + 1
    view.memory.canvas.view.setXRange(*spans["wall"], padding=0.5)
    assert view.plot.canvas.x_range == view.memory.canvas.x_range
    box = panel.window.findChild(QComboBox, "comparedMetricBox")
    assert [box.itemData(row) for row in range(box.count())] == ["loss", "rare"]
    box.setCurrentIndex(1)
    panel.until(lambda: [text for text, _ in cells(view).get("Last", [])] == ["–", "1"], "the other metric")
    assert list(view.plot.drawn) == ["lr 0.1"], "the run that has it"


def test_baseline_target_reasons_and_copies_of_the_table(panel) -> None:
    view = opened(panel, "a", "b")
    assert [difference for _, difference in cells(view)["Best"]] == ["", "−1.5 (−60.0 %)"]
    table = view.card.table
    table.selectionModel().setCurrentIndex(table.model().index(1, 0), QItemSelectionModel.SelectionFlag.NoUpdate)
    panel.qtbot.keyClick(table, Qt.Key.Key_Space)  # on the current row, which Tab does not select
    panel.until(lambda: [each for _, each in cells(view)["Best"]] == ["+1.5 (+150.0 %)", ""], "the other baseline")
    baseline = panel.window.findChild(QToolButton, "comparisonBaselineButton")
    assert baseline.text().strip() == "Baseline: lr 0.1"
    assert [action.isChecked() for action in baseline.menu().actions()] == [False, True]
    field = panel.window.findChild(QLineEdit, "comparisonTarget")
    panel.qtbot.keyClicks(field, "three")
    panel.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert "is not a number" in field.toolTip()
    field.setText("3")
    panel.qtbot.keyClick(field, Qt.Key.Key_Return)
    panel.until(lambda: "To target" in cells(view), "the target")
    assert [text for text, _ in cells(view)["To target"]] == ["2.0 s", "1.0 s"]
    panel.qtbot.mouseClick(view.card.why_button, Qt.MouseButton.LeftButton)
    panel.until(lambda: "learning_rate: 0.1 → 0.2" in view.card.why.toPlainText(), "why they differ")
    menu = panel.window.findChild(QToolButton, "comparisonExportButton").menu()
    menu_action(menu, "Copy table as CSV").trigger()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 3
    assert "setting learning_rate" in lines[0]
    menu_action(menu, "Copy table as Markdown").trigger()
    assert QGuiApplication.clipboard().text().startswith("| RUN |")


@pytest.mark.slow
def test_colours_stay_when_a_run_is_added_vanishes_or_cannot_be_read_with_a_sentence(panel, runs_root: Path) -> None:
    view = opened(panel, "a", "b")
    colours = {entry.runs[0].dir: entry.colour for entry in view.plot.entries}
    read = panel.window.controllers.comparison.reader.runs
    for text, listed in (("lr>0.15", 1), ("", 3)):
        panel.set_text("runFilter", text)
        panel.until(lambda listed=listed: panel.runs.count() == listed, "the search")
        assert len(view.plot.entries) == 2
    assert [each.rpartition("-")[2] for each in panel.runs.ticked] == ["b", "a"]
    tick(panel, "a", "b", "c")
    settle(panel, 3)
    view.plot.controls.group_box.setChecked(False)
    panel.until(lambda: len(view.plot.entries) == 3, "all three")
    now = {entry.runs[0].dir: entry.colour for entry in view.plot.entries}
    assert colours.items() <= now.items(), "a run keeps its colour"
    assert all(run in panel.window.controllers.comparison.reader.runs for run in read), "none is read again"
    tick(panel, "a")
    assert panel.window.panels.plots.isVisible()
    view.plot.controls.group_box.setChecked(True)
    spec = runs_root / "20260101-000001-b" / "spec.json"
    opened(panel, "a", "c")
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "version": 99}))
    tick(panel, "a", "b", "c")
    panel.until(lambda: "newer" in view.card.notices.text(), "why b cannot be read")
    assert len(view.plot.entries) == 1, "the two others are a group"
    shutil.rmtree(runs_root / "20260101-000000-a")
    panel.until(lambda: "20260101-000000-a was removed" in view.card.notices.text(), "the sentence")
    assert "Its curve is still shown." in view.card.notices.text()
    assert len(view.plot.entries[0].runs) == 2


@pytest.mark.slow
def test_a_live_run_goes_on_in_the_comparison(panel, runs_root: Path) -> None:
    live = write_run(
        runs_root, "20260102-000000-live", [values(1, 1, 2, loss=[9.0, 8.0])],
        states=[(0.0, "starting"), (0.5, "running")], more=[
            {"t": BEGAN, "kind": "supervisor", "pid": 1, "created": 1.0, "host": "elsewhere", "boot": "0",
             "pid_namespace": "0"}
        ], spec=make_spec("digits_mlp", learning_rate=0.7),
    )
    panel.until(lambda: panel.runs.count() == 4, "the runs")
    view = opened(panel, "live", "a")
    view.plot.controls.smoothing_button.set_weight(0.0)
    with (live / "events" / "worker-0.jsonl").open("a") as file:
        file.write(metrics_line(since=BEGAN + 3, until=BEGAN + 4, first_step=3, values={"loss": [7.0, 6.0]}) + "\n")
    panel.until(lambda: view.plot.drawn["lr 0.7"][1].tolist() == [9.0, 8.0, 7.0, 6.0], "what it measured since")
    panel.until(lambda: cells(view)["Last"][0][0] == "6", "its table")


def test_enter_compares_in_the_colours_of_the_theme_apart_from_this_machine(panel) -> None:
    panel.window.panels.menu.action("compare").trigger()
    assert "Tick two or more runs" in panel.message("messageStrip")
    tick(panel, "a", "b")
    panel.runs.setFocus()
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_Return)
    assert panel.window.controllers.comparison.is_open
    settle(panel, 2)
    row = panel.runs.visualItemRect(panel.runs.item(0)).bottomLeft() + QPoint(60, -10)
    panel.qtbot.mouseClick(panel.runs.viewport(), Qt.MouseButton.LeftButton, pos=row)
    assert not panel.window.controllers.comparison.is_open, "a click on a run shows that run"
    assert panel.run.dir.name.endswith("-c")
    panel.window.controllers.run.show_machine()
    machine = panel.window.panels.machine
    assert machine.isChecked()
    view = opened(panel, "a", "b")
    assert not machine.isChecked()
    for theme in (LIGHT, DARK):
        show_theme(theme)
        assert [entry.colour for entry in view.plot.entries] == [*theme.devices[:2]]
        assert [row.colour for row in view.card.table.rows] == [*theme.devices[:2]]
    assert panel.window.controllers.comparison.close()
    assert machine.isChecked()
    assert not view.card.table.rows, "the next comparison does not begin with these"


def test_runs_that_measured_nothing_are_told(features, runs_root: Path) -> None:
    for name in ("a", "b"):
        write_run(runs_root, f"20260101-000000-{name}")
    panel = features()
    tick(panel, "a", "b")
    panel.window.panels.actions.do("compare", panel.runs.ticked)
    view = panel.window.panels.comparison
    panel.until(lambda: view.card.empty.text() == "None of these runs has measured anything.", "the sentence")
    panel.until(lambda: view.plot.empty.text() == "None of these runs has measured anything.", "the words")
    assert view.utilisation.isHidden()
    assert view.memory.isHidden()


@pytest.mark.slow
def test_window_names_the_comparison_which_escape_ends_and_another_language_and_window_keep(drive, runs_root: Path):
    write_three(runs_root)
    panel = drive()
    view = opened(panel, "a", "b", "c")
    header, window = panel.window.panels.header, panel.window
    names = [each.text() for each in header.findChildren(QLabel) if each.isVisibleTo(header)]
    assert names[:2] == ["Comparison", "3 runs"]
    assert window.windowTitle() == "Comparison of 3 runs – Trainyard"
    tick(panel, "a", "b")
    panel.until(lambda: window.windowTitle() == "Comparison of 2 runs – Trainyard", "the runs that are left")
    panel.qtbot.mouseClick(view.close_button, Qt.MouseButton.LeftButton)
    assert window.panels.plots.isVisible()
    assert not view.isVisible()
    assert panel.runs.ticked == []
    opened(panel, "b", "c")
    panel.qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.panels.plots.isVisible()
    panel.until_state("No run")
    assert window.windowTitle() == "Trainyard"
    panel.runs.itemClicked.emit(panel.runs.item(0))
    panel.until_state("Finished")
    opened(panel, "a", "b")
    panel.until_state("Comparison")
    log = window.dock_layout.docks[-1]
    assert log.isHidden(), "its tabs are those of one run"
    view.plot.controls.axis_box.setCurrentIndex(3)
    view.plot.controls.log_box.setChecked(True)
    panel.until_replaced("zh_CN")
    settle(panel, 2)
    assert len(panel.runs.ticked) == 2
    panel.set_text("runFilter", "lr>0.15")
    panel.until(lambda: panel.runs.count() == 1, "the search")
    panel.until_replaced("en")
    settle(panel, 2)
    panel.until(lambda: panel.runs.count() == 1, "the search in the other window")
    assert len(panel.window.services.compared.value) == 2, "the search hides one of them"
    panel.window.close()
    again = drive()
    assert not again.window.dock_layout.docks[-1].isHidden()
    view = opened(again, "a", "c")
    assert (view.plot.controls.axis, view.plot.controls.log_box.isChecked()) == ("training", True)


@pytest.mark.slow
def test_the_tabs_of_one_run_come_back_when_they_are_asked_for_and_after_a_kill(drive, runs_root: Path) -> None:
    write_three(runs_root)
    panel = drive()
    opened(panel, "a", "b")
    window, layout = panel.window, panel.window.dock_layout
    log = layout.docks[-1]
    assert window.panels.header.buttons.stop.toolTip().startswith("No active run is shown"), "one may be live"
    layout.reset()
    assert log.isHidden(), "a window that becomes narrow is laid out anew"
    layout._moved = True
    saved = layout.save()
    menu = window.panels.menu
    search = window.panels.details.open_search
    for place, ask in enumerate((menu.action("processes").trigger, search, menu.tabs[0].trigger)):
        window.setFocus()
        ask()
        assert not log.isHidden(), place
        layout.fold_details(True)
    window.controllers.comparison.close()
    layout.restore(saved)
    assert not log.isHidden(), "it was saved during a comparison"


def test_a_line_stands_out_with_its_row_and_is_hidden_with_its_eye(panel) -> None:
    view = opened(panel, "a", "b")
    table, controller = view.card.table, panel.window.controllers.comparison
    assert list(cells(view))[:3] == ["Run", "Last", "Best"], "results come before settings"
    table.selectRow(1)
    controller.draw()
    panel.until(lambda: [line.width for line in view.plot.bold[:2]] == [2, 4], "the wider line")
    table.selectRow(0)
    controller.draw()
    panel.until(lambda: [line.width for line in view.plot.bold[:2]] == [4, 2], "the other line")
    curves = [line._curve for line in view.plot.bold[:2]]
    assert curves[0].zValue() > curves[1].zValue(), "it is not below another one"
    eye = table.visualRect(table.model().index(0, 0)).topLeft() + QPoint(12, 12)
    for drawn in (["lr 0.1"], ["lr 0.2", "lr 0.1"]):
        panel.qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=eye)
        panel.until(lambda drawn=drawn: list(view.plot.drawn) == drawn == list(view.memory.drawn), "the lines")
        assert ("1 line is hidden" in view.card.notices.text()) is (len(drawn) == 1)
        assert len(table.rows) == 2
    second = table.visualRect(table.model().index(1, 0)).topLeft() + QPoint(12, 12)
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    panel.qtbot.mouseClick(table.viewport(), left, pos=second)
    twice = QMouseEvent(QEvent.Type.MouseButtonDblClick, second, table.viewport().mapToGlobal(second), left, left, none)
    QApplication.sendEvent(table.viewport(), twice)
    panel.qtbot.mouseRelease(table.viewport(), left, pos=second)  # hidden and shown again
    assert (controller._hidden, controller._baseline) == (set(), None), "the baseline stays"
    for each in (eye, second):
        panel.qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=each)
    panel.until(lambda: not view.plot.drawn, "no line")
    assert view.plot.empty.text().startswith("All lines are hidden.")


def test_the_read_out_has_the_lines_nearest_to_the_mouse(features, runs_root: Path) -> None:
    for number in range(9):
        write_run(runs_root, f"20260101-00000{number}-{number}", [values(1, 1, 2, loss=[1.0 + number, 1.0 + number])],
                  spec=make_spec("digits_mlp", learning_rate=0.1 * (number + 1)))
    panel = features()
    view = opened(panel, *map(str, range(9)))
    panel.until(lambda: len(view.plot.drawn) == 9, "the lines")
    for height, values_there in ((0.0, ["5", "4", "3", "2", "1"]), (8.1, ["9", "8", "7", "6", "5"])):
        view.plot.canvas.pointed_y = height
        *_, more = rows = view.plot.reading_at(1.0).rows
        assert [each.value for each in rows[1:-1]] == values_there
        assert more.label == "and 4 more lines"


@pytest.mark.slow
def test_of_many_lines_groups_keep_their_bands_unless_these_would_cover_each_other(features, runs_root: Path) -> None:
    for number in range(20):  # ten groups of two seeds
        spec = make_spec("digits_mlp", learning_rate=0.1 * (number // 2 + 1), seed=number % 2)
        write_run(
            runs_root, f"20260101-0000{number:02}-{number}", [values(1, 1, 2, loss=[2.0 + number, 1.0])], spec=spec
        )
    panel = features()
    view = opened(panel, *(str(each) for each in range(20)))
    view.plot.controls.smoothing_button.set_weight(0.0)
    panel.until(lambda: len(view.plot.drawn) == 10, "the lines")
    assert view.plot.bands == {}
    assert "10 groups have no band, since the bands of more than 8 groups would cover" in view.card.notices.text()
    view.card.table.selectRow(3)
    panel.until(lambda: list(view.plot.bands) == [view.plot.entries[3].name], "the band of the row")
    _, low, high = view.plot.bands[view.plot.entries[3].name]
    assert (high - low).tolist() == [1.0, 0.0]
    assert view.card.notices.text().startswith("9 groups have no band")
    tick(panel, *(str(each) for each in range(20) if each not in {0, 2, 4}))  # three groups lose a run
    panel.until(lambda: len(view.plot.bands) == 7 and not view.plot.hidden_bands, "the bands of all groups, among ten")
    assert len(view.plot.drawn) == 10
    assert "no band" not in view.card.notices.text()


def test_settings_of_the_run_have_the_titles_of_the_tab_settings(features, runs_root: Path) -> None:
    for name, recipe, devices in (("a", "digits_mlp", "cpu:0"), ("b", "digits_cnn", "cpu:0,cpu:1")):
        spec = make_spec(recipe, devices=devices, strategy="single" if name == "a" else "ddp")
        write_run(runs_root, f"20260101-000000-{name}", [values(1, 1, 2, loss=[2.0, 1.0])], spec=spec)
    view = opened(features(), "a", "b")
    found = cells(view)
    assert {"Strategy", "Recipe", "Devices"} <= {*found}, found
    shown = [text for text, _ in found["Strategy"]]
    assert sorted(shown) == ["DDP", "One device"]
