"""Scaling tables in the window: begun, stopped, continued, listed, exported."""

import csv
import re
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QPushButton

from core.results.scaling_record import read_record
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.event_kinds import Plan
from gui.base.theme import DARK, LIGHT
from gui.features.compare.scaling import ScalingDialog, ScalingTableDialog
from gui.features.compare.scaling_tables import ScalingBar, ScalingPlot
from tests.support.running import Followed, make_spec, write_recipe
from tests.support.scaling_runs import HELD_RECIPE, recorded, trained
from tests.support.tables import cell
from tests.support.written_runs import BEGAN, write_run
from tests.window.driving import Driver, show_theme


def titles(panel: Driver) -> list[str]:
    return [panel.runs.item(row).text().partition("\n")[0] for row in range(panel.runs.count())]


def outcome(panel: Driver) -> str:
    return panel.runs.item(0).text().partition("\n")[2]


def view(panel: Driver) -> ScalingTableDialog:
    found = [each for each in panel.window.findChildren(ScalingTableDialog) if each.isVisible()]
    assert len(found) == 1
    return found[0]


def click(panel: Driver, name: str, dialog: ScalingTableDialog | ScalingDialog) -> None:
    panel.qtbot.mouseClick(dialog.findChild(QPushButton, name), Qt.MouseButton.LeftButton)


def search(panel: Driver, text: str) -> None:
    panel.window.panels.run_filter.setText(text)
    panel.window.panels.run_filter.returnPressed.emit()


@pytest.fixture
def runs(runs_root: Path) -> list[Path]:
    """The two runs of a scaling table."""
    runs_root.mkdir(exist_ok=True)
    made = [trained(runs_root, f"20260101-00000{at}-run", at, 10.0 / at) for at in (1, 2)]
    recorded(runs_root, made).saved()
    return made


def until_listed(panel: Driver) -> None:
    panel.until(lambda: panel.runs.count() == 1 and outcome(panel) == "speed-up 2.00 on 2 devices", "the row")


@pytest.mark.slow
def test_a_table_is_begun_stopped_and_continued(assemble, runs_root: Path, tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    panel = assemble("run", "start", "scaling", "devices")
    panel.tick("cpu:0", "cpu:1")
    panel.open_recipe(write_recipe(tmp_path, HELD_RECIPE.format(held=str(held)), name="tiny"))
    panel.set_number("epochsBox", 3)
    panel.set_number("batchBox", 16)
    panel.until_ready()
    panel.window.panels.menu.action("scaling").trigger()
    dialog = panel.window.findChild(ScalingDialog)
    assert dialog.name.text() == "tiny"
    assert "2 devices: strategy Data parallel (DDP), global batch 16" in dialog.preview.text()
    click(panel, "yesButton", dialog)
    panel.until(lambda: titles(panel)[1:] == ["↳ 2 devices", "↳ 1 device"], "both runs, unfolded")
    assert re.fullmatch(r"▾ (\d\d:\d\d )?tiny: 1 · 2", titles(panel)[0])
    panel.until(lambda: outcome(panel) == "1 of 2 trained", "the progress")
    table = panel.window.services.scaling_tables.tables[0]
    held_run = Followed(Run.attach(runs_root / table.record.runs[-1].run)).until(RunState.RUNNING)
    assert view(panel).sentence.text() == "Training 2 of 2: 2 devices with the strategy Data parallel (DDP)."
    assert view(panel).progress.isVisible()
    assert (view(panel).progress.value(), view(panel).progress.maximum()) == (1, 2)
    click(panel, "haltButton", view(panel))
    held_run.until(RunState.STOPPING)  # before this, the run could train to its end
    held.unlink()
    assert held_run.until_over().state is RunState.STOPPED
    panel.until(lambda: outcome(panel) == "stopped · 1 of 2 trained", "the end of the measuring")
    panel.until(lambda: "Nothing more was started." in view(panel).sentence.text(), "why it has ended")
    click(panel, "continueButton", view(panel))
    panel.until(lambda: outcome(panel).startswith("speed-up "), "the result")
    assert outcome(panel).endswith(" on 2 devices")
    assert view(panel).sentence.text() == "All 2 trainings have finished."
    assert not view(panel).go_on.isVisible()
    assert [bar.devices for bar in view(panel).plot.bars] == [1, 2]
    record = read_record(runs_root, "tiny")
    assert (record.measured_by, record.note, len(record.runs)) == (None, "", 3)


@pytest.mark.slow
def test_what_is_asked_for_takes_as_long_as_the_last_run_of_the_recipe_says(assemble, runs_root, tmp_path) -> None:
    recipe = write_recipe(tmp_path, HELD_RECIPE.format(held=str(tmp_path / "held")), name="tiny")
    spec = make_spec(recipe, devices="cpu:0,cpu:1", strategy="ddp", epochs=10)
    states = ((0.0, "starting"), (1.0, "running"), (299.0, "releasing"), (300.0, "finished"))
    plan = {"t": BEGAN, "kind": "plan", **Plan(epochs=10, steps_per_epoch=1, samples_per_epoch=16).fields()}
    write_run(runs_root, "20250615-150000-tiny", [plan], spec=spec, states=states)
    panel = assemble("run", "start", "scaling", "devices")
    panel.tick("cpu:0", "cpu:1")
    panel.open_recipe(recipe)
    panel.set_number("epochsBox", 4)
    panel.set_number("batchBox", 16)
    panel.until_ready()
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.window.panels.menu.action("scaling").trigger()
    dialog = panel.window.findChild(ScalingDialog)
    # Five minutes on two devices are one minute per epoch on one: 4 epochs on one device, and 4 on two.
    assert re.search(r"Judging by .* tiny, all of it takes about 6 min\.", dialog.preview.text())
    dialog.repeats.setValue(2)
    assert "all of it takes about 12 min." in dialog.preview.text()
    click(panel, "noButton", dialog)


@pytest.mark.styled
@pytest.mark.slow
def test_a_table_is_folded_searched_and_exported(drive, runs: list[Path], runs_root: Path, tmp_path: Path) -> None:
    panel = drive()
    until_listed(panel)
    panel.runs.chosen.emit(str(runs_root / "table.scaling.json"))
    assert panel.runs.count() == 3
    panel.runs.tick([str(runs_root / "table.scaling.json"), *map(str, runs)])
    assert sorted(panel.runs.ticked) == sorted(map(str, runs)), "the row of the table is no run"
    panel.runs.clearSelection()
    shown = view(panel)
    assert cell(shown.table, 1, 4) == "2.00"
    assert shown.plot.accessibleDescription() == "1 device: 1.00. 2 devices: 2.00."
    menu = panel.runs.run_menu
    menu.show_run(runs_root / "table.scaling.json")
    menu.aboutToShow.emit()
    assert "This row is a scaling table." in menu.action("csv").toolTip()
    assert [name for name in ("path", "report", "remove", "csv", "again") if menu.action(name).isEnabled()] == [
        "path", "report", "remove",
    ]
    show_theme(LIGHT)
    assert LIGHT.accent in {
        shown.plot.grab().toImage().pixelColor(x, 200).name() for x in range(0, shown.plot.width(), 8)
    }
    show_theme(DARK)
    shown.row_chosen.emit(1)
    assert panel.window.services.session.run.dir == runs[1]
    for name in ("table.csv", "table.md", "table.html", "plot.png", "plot.svg"):
        click(panel, "exportButton", shown)
        panel.exported(tmp_path / name)
    with (tmp_path / "table.csv").open() as file:
        assert [row["speed_up"] for row in csv.DictReader(file)] == ["1.0", "2.0"]
    assert "| 2 | ddp | 64 |" in (tmp_path / "table.md").read_text()
    assert "Scaling table table" in (tmp_path / "table.html").read_text()
    assert QImage(str(tmp_path / "plot.png")).width() > 1000
    assert "2 devices" in (tmp_path / "plot.svg").read_text()
    shown.reject()
    panel.runs.chosen.emit(str(runs_root / "table.scaling.json"))
    assert panel.runs.count() == 1
    search(panel, "state:finished")
    assert panel.runs.count() == 2, "a search finds the runs themselves"
    panel.window.panels.menu.action("exportScaling").trigger()
    panel.exported(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()
    search(panel, "")
    delete_alone_and_with_runs(panel, runs_root, runs)


def delete_alone_and_with_runs(panel: Driver, runs_root: Path, runs: list[Path]) -> None:
    """Delete the table alone, then, after it was measured again, with its runs."""
    menu = panel.runs.run_menu
    menu.show_run(runs_root / "table.scaling.json")
    menu.action("remove").trigger()
    assert "It has 2 runs, which take " in panel.asked().words.text()
    panel.answer("otherButton")
    panel.until(lambda: panel.message("messageStrip") == "Deleted the scaling table table.", "the result")
    assert panel.runs.count() == 2, "the runs alone"
    record = recorded(runs_root, runs).taken()
    panel.until(lambda: len(panel.window.services.scaling_tables.tables) == 1, "the row again")
    panel.runs.chosen.emit(str(record.path))
    panel.runs.chosen.emit(str(runs[0]))
    menu.action("remove").trigger()
    panel.until(lambda: "is being measured, so it was not deleted." in panel.message("messageStrip"), "the refusal")
    record.left()
    menu.action("remove").trigger()
    panel.answer("yesButton")
    panel.until(lambda: panel.runs.count() == 0, "an empty list")
    panel.until(lambda: panel.message("messageStrip").startswith("Deleted the scaling table table. This freed"), "it")
    assert panel.run is None, "a run that is deleted is not shown"
    assert list(runs_root.iterdir()) == []
    assert not any(each.isVisible() for each in panel.window.findChildren(ScalingTableDialog)), "its view is closed"


@pytest.mark.slow
def test_the_curves_of_a_table_are_compared(assemble, runs: list[Path], runs_root: Path) -> None:
    panel, record = assemble("run", "scaling", "history", "comparison"), runs_root / "table.scaling.json"
    until_listed(panel)
    panel.runs.setCurrentRow(0)
    panel.runs.clearSelection()
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_Space)
    assert panel.runs.selectedItems() == [], "a table cannot be ticked"
    panel.runs.chosen.emit(str(record))
    search(panel, "state:failed")
    click(panel, "compareRunsButton", view(panel))
    not_listed = "The runs of the scaling table table are not in the list now. Clear the filter."
    assert panel.message("messageStrip") == not_listed
    search(panel, "")
    panel.runs.chosen.emit(str(record))  # folds it
    click(panel, "compareRunsButton", view(panel))
    panel.until(lambda: len(panel.window.controllers.comparison.reader.runs) == 2, "both curves")
    assert panel.window.panels.comparison.isVisible()
    assert sorted(panel.runs.ticked) == sorted(map(str, runs))
    assert titles(panel)[1:] == ["↳ 2 devices", "↳ 1 device"]


def test_what_cannot_be_measured_is_said_in_the_dialog(assemble, tmp_path: Path) -> None:
    panel = assemble("start", "scaling", "devices")
    panel.tick("cpu:0")
    panel.window.panels.menu.action("scaling").trigger()
    dialog = panel.window.findChild(ScalingDialog)
    assert dialog.problem.text() == (
        "A scaling table needs at least two devices, but 1 is chosen. Choose more of them."
    )
    assert not dialog.yes.isEnabled()
    panel.tick("cpu:0", "cpu:1")
    dialog.name.setText("a/b")
    assert "cannot have the name 'a/b'" in dialog.problem.text()
    dialog.name.setText("a")
    assert dialog.yes.isEnabled()
    dialog.batch.setCurrentIndex(1)
    assert "2 devices: strategy Data parallel (DDP), global batch 128" in dialog.preview.text()
    dialog.reject()
    panel.window.panels.setup.open_script(tmp_path / "train.py")
    panel.window.panels.menu.action("scaling").trigger()
    assert "a script is chosen" in panel.message("messageStrip")


@pytest.mark.slow
def test_the_report_on_the_listed_runs_compares_them(assemble, runs_root: Path, tmp_path: Path) -> None:
    panel = assemble("run", "export")
    panel.window.panels.menu.action("listReport").trigger()
    assert "nothing to report on" in panel.message("messageStrip")
    for name in ("20260101-000001-a", "20260101-000002-b"):
        trained(runs_root, name, 1, 10.0)
    panel.until(lambda: panel.runs.count() == 2, "the runs")
    panel.window.panels.menu.action("listReport").trigger()
    panel.exported(tmp_path / "runs.html")
    assert "Report on 2 runs" in (tmp_path / "runs.html").read_text()


@pytest.mark.styled
def test_bars_are_as_high_as_the_speed_up(hold) -> None:
    plot = hold(ScalingPlot())
    plot.resize(400, 300)
    plot.show_bars([
        ScalingBar(devices=1, speed_up=1.0, deviation=None), ScalingBar(devices=2, speed_up=1.5, deviation=0.1),
        ScalingBar(devices=4, speed_up=None, deviation=None),
    ])
    show_theme(LIGHT)
    image = plot.grab().toImage()
    width = image.width() / 3
    heights = [
        sum(image.pixelColor(round((at + 0.5) * width) - 12, y).name() == LIGHT.accent for y in range(image.height()))
        for at in range(3)
    ]
    assert heights[1] / heights[0] == pytest.approx(1.5, rel=0.05)
    assert heights[2] == 0, "a missing number is no bar"
    assert "4 devices: not known." in plot.accessibleDescription()
