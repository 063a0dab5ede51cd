"""What leaves the window: of a run, of several, of a comparison; and the names of runs."""

import contextlib
import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QMenu

from core.cli import __main__
from core.history.index import RunIndex
from core.launchers.export_model import Exported
from core.runs.facts import RunState
from core.runs.run import Run
from core.series import report
from gui.features.runlist import run_files as export_controller
from gui.plots import exports
from gui.runs.actions import obstacles
from gui.widgets.dialogs import NameDialog
from tests.support.waiting import PATIENCE_S
from tests.unit.test_reports import Page
from tests.window.driving import choose_in_menu
from tests.window.test_comparison import opened, tick, write_three

RECORDED = Path(__file__).parents[1] / "recorded_runs"


@pytest.fixture
def finished(runs_root) -> Path:
    """A finished run of a recipe, among two others."""
    for name in ("failed", "finished_script", "finished"):
        shutil.copytree(RECORDED / name, runs_root / name)
    return runs_root / "finished"


@pytest.fixture
def panel(assemble, finished):
    driver = assemble("run", "history", "export")
    driver.window.controllers.run.attach_to(str(finished))
    return driver


def ask(panel, name: str) -> None:
    """Choose an action of the shown run."""
    panel.window.panels.header.again.run_menu.action(name).trigger()


@pytest.mark.slow
def test_measurements_report_and_event_file_are_those_of_the_commands(panel, finished, tmp_path):
    ask(panel, "csv")
    assert panel.exported(tmp_path / "curve.csv").startswith("Wrote ")
    by_command = io.StringIO()
    report.write_csv(report.read_series(Run(finished)), by_command)
    assert (tmp_path / "curve.csv").read_text() == by_command.getvalue()
    ask(panel, "csv")
    assert "cannot be written: there is no folder" in panel.exported(tmp_path / "no such folder" / "curve.csv")
    ask(panel, "report")
    assert panel.exported(tmp_path / "a report.html").startswith("Wrote ")
    assert "Report on finished" in (tmp_path / "a report.html").read_text()
    ask(panel, "tensorboard")
    assert panel.exported(tmp_path / "tb").startswith("Wrote 61 values to ")
    (path,) = (tmp_path / "tb").iterdir()
    assert "tfevents" in path.name
    ask(panel, "tensorboard")
    panel.export_to(tmp_path / "tb")
    panel.until(lambda: "has event files of an earlier export" in panel.message("messageStrip"), "the refusal")


def test_table_of_runs_and_pictures_are_written(panel, tmp_path):
    panel.window.panels.menu.action("runTable").trigger()
    assert "Wrote 3 runs to" in panel.exported(tmp_path / "runs.csv")
    rows = {row["run"]: row for row in csv.DictReader((tmp_path / "runs.csv").read_text().splitlines())}
    assert (rows["finished"]["state"], rows["finished"]["framework"]) == ("finished", "pytorch")
    assert float(rows["finished"]["loss"]) > 0
    assert (rows["finished_script"]["epochs"], rows["failed"]["state"]) == ("", "failed")
    panel.window.panels.menu.action("runTable").trigger()
    panel.exported(tmp_path / "runs.md")
    headings, _, *lines = (tmp_path / "runs.md").read_text().splitlines()
    assert headings.startswith("| run | name | state |")
    assert len(lines) == 3
    assert {line.count("|") for line in lines} == {headings.count("|")}
    size = panel.window.panels.plots.size()
    panel.window.panels.menu.action("pictures").trigger()
    panel.exported(tmp_path / "plots.png")
    assert QImage(str(tmp_path / "plots.png")).size() == size * 2
    panel.window.panels.menu.action("pictures").trigger()
    panel.exported(tmp_path / "plots.svg")
    assert "<svg" in (tmp_path / "plots.svg").read_text()[:400]


def test_menu_of_a_plot_copies_its_values_and_a_model_is_exported_in_background(panel, finished, tmp_path, monkeypatch):
    plot = panel.plot("lossPlot")
    panel.until(lambda: panel.points("lossPlot") > 0, "the curve")
    view = plot.canvas.viewport()
    at = QPoint(40, 40)
    QApplication.sendEvent(view, QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, view.mapToGlobal(at)))
    menu = next(each for each in plot.findChildren(QMenu, "plotMenu") if each.isVisible())
    actions = {each.text(): each for each in menu.actions()}
    actions["Copy values"].trigger()
    heading, *lines = QGuiApplication.clipboard().text().splitlines()
    assert heading == "name\tstep\ttime\tvalue"
    loss = report.read_series(Run(finished)).metrics["loss"]
    copied = [float(line.split("\t")[3]) for line in lines if line.startswith("loss\t")]
    assert copied == loss.values.tolist()
    assert f"{len(lines)} rows" in panel.message("messageStrip")
    actions["Save picture…"].trigger()
    panel.export_dialog().reject()
    menu.close()
    asked = []

    def export(run_dir, folder, *, format_name):
        asked.append((run_dir, folder, format_name))
        if len(asked) > 1:
            raise ValueError(f"{folder} exists already and is not an empty folder. Name another.")
        return Exported(folder=folder, format="state_dict", checkpoint="c", step=7, files=("a", "load.py"))

    monkeypatch.setattr(exports, "export_model", export)
    ask(panel, "model")
    assert panel.exported(tmp_path / "model") == f"Wrote the model of step 7 to {tmp_path / 'model'}: a, load.py."
    assert asked == [(finished, tmp_path / "model", "state_dict")]
    ask(panel, "model")
    panel.window.panels.message.show_message("")
    assert "Nothing was exported" in panel.exported(tmp_path / "model")


def test_window_renames_a_run_without_its_spec_and_its_actions_follow_state_and_owner(drive, finished, capsys):
    panel, spec = drive(), (finished / "spec.json").read_bytes()
    panel.until(lambda: panel.runs.count() == 3, "the runs")
    panel.window.controllers.run.attach_to(str(finished))
    ask(panel, "rename")
    dialog = panel.window.findChild(NameDialog)
    dialog.edit.setText(" \t")
    assert not dialog.yes.isEnabled()
    dialog.edit.setText("  the good one ")
    dialog.accept()
    panel.until(lambda: any("the good one" in panel.runs.item(row).text() for row in range(3)), "the list")
    panel.until(lambda: panel.window.windowTitle().startswith("✓ the good one"), "the heading")
    assert (finished / "spec.json").read_bytes() == spec
    assert json.loads((finished / "name.json").read_text()) == {"name": "the good one"}
    assert Run(finished).spec().name == "the good one"
    __main__.main(["--runs", str(finished.parent), "runs"])
    assert "the good one" in capsys.readouterr().out
    summaries = {each.dir.name: each for each in panel.window.services.run_list.summaries}
    of_live_runs = ["doctor", "set", "finish", "trace", "resumeOn"]
    assert [name for name, why in obstacles(summaries["finished"]).items() if why] == of_live_runs
    menu = panel.window.panels.runs.run_menu
    menu.show_run(finished.parent / "finished_script")
    menu.aboutToShow.emit()
    assert not menu.action("model").isEnabled()
    assert "script" in menu.action("model").toolTip()
    assert menu.action("csv").isEnabled()
    running = replace(summaries["finished"], state=RunState.RUNNING)
    assert obstacles(running)["remove"] == "This run is running. Press Stop first."
    paused = {name: replace(each, state=RunState.PAUSED) for name, each in summaries.items()}
    assert obstacles(paused["finished"])["resumeOn"] == ""
    assert obstacles(paused["finished_script"])["resumeOn"] == "Trainyard cannot resume a script."
    assert "anna" in obstacles(replace(paused["finished"], owner="anna"))["resumeOn"]
    others = obstacles(replace(summaries["finished"], owner="anna"))
    of_owner = {name for name, why_not in others.items() if "belongs to anna" in why_not}
    assert of_owner - {"remove"} == {"rename", "star", "tags", "note", "archive"}  # root may remove it
    exports = {panel.window.panels.header.again.run_menu.action(name) for name in ("report", "tensorboard")}
    menu = panel.window.panels.menu
    assert exports <= {*menu.export.actions()}
    assert menu.export.menuAction() in menu.file.actions()


def test_command_renames_and_refuses_a_name_that_cannot_be_read(finished, capsys):
    runs = ["--runs", str(finished.parent)]
    assert __main__.main([*runs, "rename", "finished", "x\ny"]) == 2
    assert "cannot be printed" in capsys.readouterr().err
    assert __main__.main([*runs, "rename", str(finished), "another name"]) == 0
    assert capsys.readouterr().out == "finished is now called another name.\n"


@pytest.mark.parametrize("content", ["", "[]", '{"name": 5}', "x" * 5000, '{"name": "  "}'])
def test_damaged_name_file_leaves_the_name_of_the_spec(finished, content):
    before = Run(finished).spec().name
    (finished / "name.json").write_text(content)
    assert Run(finished).spec().name == before
    assert {each.dir.name: each.name for each in RunIndex(finished.parent).poll()}["finished"] == before


# -- several runs ----------------------------------------------------------------------------------


@pytest.fixture
def compared(assemble, runs_root):
    write_three(runs_root)
    return assemble("run", "history", "export", "comparison")


@pytest.mark.slow
def test_a_comparison_is_exported_as_it_is_shown(compared, tmp_path):
    panel = compared
    export = panel.window.panels.menu.action("exportComparison")
    panel.window.panels.menu.file.aboutToShow.emit()
    assert not export.isEnabled(), "nothing is compared"
    view = opened(panel, "a", "b", "c")
    view.plot.controls.group_box.setChecked(False)
    panel.until(lambda: len(view.card.table.rows) == 3, "a row for each run")
    view.card.target_chosen.emit(3.0)
    second = QPoint(20, view.card.table.rowViewportPosition(1) + 4)
    choose_in_menu(view.card.table, "Use as baseline", second)
    reader = panel.window.controllers.comparison.reader
    panel.until(lambda: "time_to_target_s" in reader.comparison.rows[0].statistics and reader.comparison.baseline == 1,
                "the table with baseline and target")
    panel.window.panels.menu.file.aboutToShow.emit()
    for name in ("c.csv", "c.md", "c.html", "c.png", "c.svg"):
        export.trigger()
        assert panel.exported(tmp_path / name) == f"Wrote {tmp_path / name}."
    rows = Page((tmp_path / "c.html").read_text()).rows
    (heading,) = [row for row in rows if row[0] == "RUN"]
    shown = [row for row in rows if row[0].startswith("20260101") and len(row) == len(heading)]
    assert [row[0] for row in shown[:3]] == [run.dir.name for run in reader.runs], "a row for each seed"
    assert "%" not in "".join(shown[1]), "the baseline that was chosen"
    assert "%" in "".join(shown[0])
    assert "TO TARGET" in heading
    with (tmp_path / "c.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3
    assert (tmp_path / "c.md").read_text().startswith("| RUN |")
    assert QImage(str(tmp_path / "c.png")).size() == view.size() * 2
    assert "<svg" in (tmp_path / "c.svg").read_text()[:400]
    choose_in_menu(view.plot, "Copy values", QPoint(60, 60))
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 1 + 4 + 4 + 3, "each value of each run"
    assert {line.split("\t")[0] for line in lines[1:]} == {run.dir.name for run in reader.runs}
    shutil.rmtree(reader.runs[0].dir)
    export.trigger()
    panel.export_to(tmp_path / "gone.html")
    panel.until(lambda: panel.message("messageStrip").startswith("Nothing was exported: There is no run "), "why")
    assert not (tmp_path / "gone.html").exists()
    export.trigger()
    panel.window.controllers.comparison.close()
    panel.export_to(tmp_path / "late.html")
    panel.until(lambda: "the comparison was closed" in panel.message("messageStrip"), "the reason")


@pytest.mark.slow
def test_ticked_runs_are_exported_together_and_problems_are_sentences(compared, tmp_path, small_disk, monkeypatch):
    panel = compared
    tick(panel, "a", "b")
    panel.window.panels.actions.do("tensorboard", panel.runs.ticked)
    assert panel.exported(tmp_path / "tb").startswith("Wrote ")
    assert [len(list(each.iterdir())) for each in (tmp_path / "tb").iterdir()] == [1, 1], "a folder for each run"
    monkeypatch.setattr(export_controller, "MAX_REPORTED", 1)
    panel.window.panels.actions.do("report", panel.runs.ticked)
    assert panel.message("messageStrip").startswith("2 runs are chosen, and a report compares at most 1.")
    monkeypatch.undo()
    panel.window.panels.actions.do("report", panel.runs.ticked)
    panel.export_to(tmp_path / "no such folder" / "two.html")
    panel.until(lambda: "Nothing was exported: " in panel.message("messageStrip"), "the reason")
    assert "there is no folder" in panel.message("messageStrip")
    monkeypatch.setattr("gui.plots.exports.SILENT_MS", 0)
    go_on = Event()
    export = panel.window.panels.exporter
    export.ask_kind("Export", "x", (".csv",), lambda path, _: lambda: (str(go_on.wait(PATIENCE_S)), "good"))
    panel.export_to(tmp_path / "long.csv")
    panel.until(lambda: panel.message("messageStrip") == f"Writing {tmp_path / 'long.csv'} …", "what goes on")
    panel.window.panels.menu.action("runTable").trigger()
    panel.export_to(tmp_path / "runs.csv")
    assert panel.message("messageStrip").startswith("Another export is under way.")
    go_on.set()
    panel.until(lambda: panel.message("messageStrip") == "True", "the end")
    with contextlib.suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    before = sorted(small_disk.iterdir())
    panel.window.panels.menu.action("pictures").trigger()
    message = panel.exported(small_disk / "plots.png")
    assert message.startswith("Nothing was exported: The disk is full: ")
    assert message.endswith("Free some space.")
    assert sorted(small_disk.iterdir()) == before
    panel.window.panels.menu.action("runTable").trigger()
    shown = panel.export_dialog()
    assert (shown.defaultSuffix(), shown.selectedFiles()[0].rpartition("/")[2]) == ("csv", "runs.csv")
    shown.selectNameFilter("Markdown table (*.md)")
    shown.filterSelected.emit("Markdown table (*.md)")
    assert (shown.defaultSuffix(), shown.selectedFiles()[0].rpartition("/")[2]) == ("md", "runs.md")
    shown.reject()
