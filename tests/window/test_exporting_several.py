"""Export a comparison and ticked runs from the window: every kind of file, from every menu, and what goes wrong."""

from __future__ import annotations

import contextlib
import csv
import shutil
from threading import Event
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QFileDialog, QMenu

from gui.features.runlist import run_files as export_controller
from tests.support.waiting import PATIENCE_S
from tests.unit.test_reports import Page
from tests.window.driving import menu_action
from tests.window.test_comparison import opened, tick, write_three

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QWidget

    from tests.window.driving import Driver


@pytest.fixture
def panel(drive, runs_root: Path) -> Driver:
    write_three(runs_root)
    found = drive()
    found.until(lambda: found.runs.count() == 3, "the runs")
    return found


def dialog(panel: Driver) -> QFileDialog:
    return next(each for each in panel.window.findChildren(QFileDialog, "exportDialog") if each.isVisible())


def save(panel: Driver, path: Path) -> str:
    """Choose a file in the dialog that is open, and return the message that follows."""
    shown = dialog(panel)
    shown.fileSelected.emit(str(path))
    shown.reject()
    panel.until(lambda: str(path) in panel.message("messageStrip").replace(f"Writing {path}", ""), "the result")
    return panel.message("messageStrip")


def context_menu(widget: QWidget, name: str, place: QPoint) -> QMenu:
    widget.customContextMenuRequested.emit(place)
    return next(each for each in widget.findChildren(QMenu, name) if each.isVisible())


@pytest.mark.slow
def test_a_comparison_is_exported_as_it_is_shown(panel: Driver, tmp_path: Path) -> None:
    export = panel.window.panels.menu.action("exportComparison")
    panel.window.panels.menu.file.aboutToShow.emit()
    assert not export.isEnabled(), "nothing is compared"
    view = opened(panel, "a", "b", "c")
    view.plot.controls.group_box.setChecked(False)
    panel.until(lambda: len(view.card.table.rows) == 3, "a row for each run")
    view.card.target_chosen.emit(3.0)
    place = QPoint(20, view.card.table.rowViewportPosition(1) + 4)
    menu = context_menu(view.card.table, "comparisonTableMenu", place)
    menu_action(menu, "Use as baseline").trigger()
    menu.close()
    reader = panel.window.controllers.comparison.reader
    panel.until(lambda: "time_to_target_s" in reader.comparison.rows[0].statistics and reader.comparison.baseline == 1,
                "the table with baseline and target")
    panel.window.panels.menu.file.aboutToShow.emit()
    for name in ("c.csv", "c.md", "c.html", "c.png", "c.svg"):
        export.trigger()
        assert save(panel, tmp_path / name) == f"Wrote {tmp_path / name}."
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
    menu = context_menu(view.plot, "comparedPlotMenu", QPoint(60, 60))
    menu_action(menu, "Copy values").trigger()
    menu.close()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 1 + 4 + 4 + 3, "each value of each run"
    assert {line.split("\t")[0] for line in lines[1:]} == {run.dir.name for run in reader.runs}
    shutil.rmtree(reader.runs[0].dir)
    export.trigger()
    shown_dialog = dialog(panel)
    shown_dialog.fileSelected.emit(str(tmp_path / "gone.html"))
    shown_dialog.reject()
    panel.until(
        lambda: panel.message("messageStrip").startswith("Nothing was exported: There is no run "), "the reason"
    )
    assert not (tmp_path / "gone.html").exists()
    export.trigger()
    waiting = dialog(panel)
    panel.window.controllers.comparison.close()
    waiting.fileSelected.emit(str(tmp_path / "late.html"))
    waiting.reject()
    panel.until(lambda: "the comparison was closed" in panel.message("messageStrip"), "the reason")


@pytest.mark.slow
def test_ticked_runs_are_exported_together_and_problems_are_sentences(
    panel: Driver, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick(panel, "a", "b")
    panel.window.panels.actions.do("tensorboard", panel.runs.ticked)
    assert save(panel, tmp_path / "tb").startswith("Wrote ")
    assert [len(list(each.iterdir())) for each in (tmp_path / "tb").iterdir()] == [1, 1], "a folder for each run"
    monkeypatch.setattr(export_controller, "MAX_REPORTED", 1)
    panel.window.panels.actions.do("report", panel.runs.ticked)
    assert panel.message("messageStrip").startswith("2 runs are chosen, and a report compares at most 1.")
    monkeypatch.undo()
    panel.window.panels.actions.do("report", panel.runs.ticked)
    shown = dialog(panel)
    shown.fileSelected.emit(str(tmp_path / "no such folder" / "two.html"))
    shown.reject()
    panel.until(lambda: "Nothing was exported: " in panel.message("messageStrip"), "the reason")
    assert "there is no folder" in panel.message("messageStrip")
    monkeypatch.setattr("gui.plots.exports.SILENT_MS", 0)
    go_on = Event()
    export = panel.window.panels.exporter
    export.ask_kind("Export", "x", (".csv",), lambda path, _: lambda: (str(go_on.wait(PATIENCE_S)), "good"))
    shown = dialog(panel)
    shown.fileSelected.emit(str(tmp_path / "long.csv"))
    shown.reject()
    panel.until(lambda: panel.message("messageStrip") == f"Writing {tmp_path / 'long.csv'} …", "what goes on")
    panel.window.panels.menu.action("runTable").trigger()
    shown = dialog(panel)
    shown.fileSelected.emit(str(tmp_path / "runs.csv"))
    shown.reject()
    assert panel.message("messageStrip").startswith("Another export is under way.")
    go_on.set()
    panel.until(lambda: panel.message("messageStrip") == "True", "the end")
    with contextlib.suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    before = sorted(small_disk.iterdir())
    panel.window.panels.menu.action("pictures").trigger()
    message = save(panel, small_disk / "plots.png")
    assert message.startswith("Nothing was exported: The disk is full: ")
    assert message.endswith("Free some space.")
    assert sorted(small_disk.iterdir()) == before
    panel.window.panels.menu.action("runTable").trigger()
    shown = dialog(panel)
    assert (shown.defaultSuffix(), shown.selectedFiles()[0].rpartition("/")[2]) == ("csv", "runs.csv")
    shown.selectNameFilter("Markdown table (*.md)")
    shown.filterSelected.emit("Markdown table (*.md)")
    assert (shown.defaultSuffix(), shown.selectedFiles()[0].rpartition("/")[2]) == ("md", "runs.md")
    shown.reject()
