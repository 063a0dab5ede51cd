"""The menus of the tables in the tabs Memory, Processes and Outputs: copy them, and save them."""

from __future__ import annotations

import csv
import io
import os
import time
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMenu, QTableView

from core.schema.event_kinds import ProcessInfo
from core.schema.paths import OUTPUTS
from gui.panels.run.details import MEMORY_TAB, OUTPUTS_TAB
from gui.viewmodels.devices.memory_bars import MemoryBar
from gui.viewmodels.devices.process_rows import KnownRuns, ProcessEntry, process_rows
from tests.support.recorded import GB, recorded
from tests.window.driving import menu_action

if TYPE_CHECKING:
    from pathlib import Path

    from tests.window.driving import Driver

RUNS = KnownRuns(shown="this", names={"this": "digits"}, living=frozenset())


@pytest.fixture
def panel(drive, runs_root) -> Driver:
    """A window that shows a run with an output."""
    run_dir = recorded(runs_root)
    folder = run_dir / OUTPUTS
    folder.mkdir()
    (folder / "=words.txt").write_text("hello")
    os.utime(folder / "=words.txt", (1_750_000_000, 1_750_000_000))
    driver = drive()
    driver.until(lambda: driver.runs.count() == 1, "the run")
    driver.window.controllers.run.attach_to(str(run_dir))
    driver.until(lambda: driver.window.panels.details.tabs.isTabVisible(OUTPUTS_TAB), "the outputs")
    return driver


def choose(panel: Driver, table: str, text: str) -> None:
    """Choose an entry of the menu of a table."""
    found = panel.window.findChild(QTableView, table)
    found.customContextMenuRequested.emit(QPoint(5, 5))
    menu = next(each for each in found.findChildren(QMenu) if each.isVisible())
    menu_action(menu, text).trigger()
    menu.close()


def copied() -> list[list[str]]:
    return list(csv.reader(io.StringIO(QGuiApplication.clipboard().text())))


def save(panel: Driver, path: Path) -> None:
    dialog = next(each for each in panel.window.findChildren(QFileDialog, "exportDialog") if each.isVisible())
    dialog.fileSelected.emit(str(path))
    dialog.reject()
    panel.until(lambda: f"Wrote {path}." in panel.message("messageStrip"), "the result")


@pytest.mark.slow
def test_memory_is_copied_as_shown_and_in_bytes(panel):
    details = panel.window.panels.details
    details.tabs.setCurrentIndex(MEMORY_TAB)
    details.memory.show_rows([
        MemoryBar(
            id="GPU-1", label="GPU 0", colour="#4d9bff", total_bytes=24 * GB, parts=(GB, 0, None, GB // 2, 3 * GB)
        ),
        MemoryBar(id="GPU-2", label="GPU 1", colour="#4d9bff", total_bytes=None, parts=(None,) * 5, words="asleep"),
    ])  # fmt: skip
    choose(panel, "memoryHolders", "Copy table as Markdown")
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == "| Device | Memory, GB | This run | Other runs | Others | Unclaimed | Free |"
    assert lines[2:] == ["| GPU 0 | 24.0 | 1.0 | 0 | – | 0.50 | 3.0 |", "| GPU 1 | asleep | – | – | – | – | – |"]
    assert panel.message("messageStrip") == "Copied the table: 2 rows."
    choose(panel, "memoryHolders", "Copy table as CSV")
    headings, first, second = copied()
    assert dict(zip(headings, first, strict=True)) == {
        "device": "GPU-1", "label": "GPU 0", "total_bytes": str(24 * GB), "this_run_bytes": str(GB),
        "other_runs_bytes": "0", "others_bytes": "", "unclaimed_bytes": str(GB // 2), "free_bytes": str(3 * GB),
        "note": "",
    }  # fmt: skip
    assert second == ["GPU-2", "GPU 1", "", "", "", "", "", "", "asleep"], "a missing reading is no zero"


@pytest.mark.slow
def test_processes_are_copied_with_whole_commands_and_saved(panel, tmp_path):
    info = ProcessInfo(
        pid=4711, created=1.0, device_id="GPU-1", memory_used_bytes=3 * GB, name="python", user="anna",
        command="python train.py " + "x" * 3000, age_s=90.26, run_id="this", state="S", ours=True,
    )  # fmt: skip
    rows = process_rows(
        [ProcessEntry(info=info, devices=("GPU-1", "GPU-2"))], {"GPU-1": "GPU 0", "GPU-2": "GPU 1"}, RUNS
    )
    tab = panel.window.panels.details.processes
    tab.show_rows(rows, empty="", problem="")
    choose(panel, "processTable", "Copy table as CSV")
    headings, row = copied()
    assert dict(zip(headings, row, strict=True)) == {
        "pid": "4711", "user": "anna", "name": "python", "command": info.command, "age_s": "90.3",
        "memory_bytes": str(3 * GB), "devices": "GPU-1 GPU-2", "run": "this",
    }  # fmt: skip
    tab.show_rows(rows, empty="", problem="")
    choose(panel, "processTable", "Save table…")
    save(panel, tmp_path / "processes.md")
    text = (tmp_path / "processes.md").read_text()
    assert text.startswith("| PID | User | Name | Command | Age | Memory | Device | Run |\n")
    assert "| 1:30 | 3.0 GB |" in text


@pytest.mark.slow
def test_outputs_are_copied_and_saved(panel, tmp_path):
    panel.window.panels.details.tabs.setCurrentIndex(OUTPUTS_TAB)
    choose(panel, "outputTable", "Copy table as Markdown")
    heading, _, row = QGuiApplication.clipboard().text().splitlines()
    assert heading == "| File | Size | Time |"
    day = time.localtime(1_750_000_000)
    assert row.startswith(f"| =words.txt | 1 kB | {time.strftime('%d %b', day).lstrip('0')} ")
    choose(panel, "outputTable", "Save table…")
    save(panel, tmp_path / "outputs.csv")
    headings, values = csv.reader((tmp_path / "outputs.csv").read_text().splitlines())
    assert headings == ["file", "size_bytes", "modified"]
    assert values[:2] == ["'=words.txt", "5"], "no formula for a spreadsheet"
    assert values[2].startswith(time.strftime("%Y-%m-%dT", day))
