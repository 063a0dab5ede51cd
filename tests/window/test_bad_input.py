"""The window while a run misbehaves: a flood of output, and a folder that vanishes. About three seconds.

How long the window stands still meanwhile is measured by `benchmarks/bench_event_loop.py`.

Settings that are damaged or newer are in `test_preferences`, languages and fonts in `test_language`, screens that are
gone in `test_window_manager`, runs made to do harm in `test_hostile_runs`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit

from core.schema.paths import LOG_FILE
from tests.support.written_runs import write_run
from tests.window.test_missed import write_live

FLOOD = """
import sys, time
from pathlib import Path
written, end = 0, Path(sys.argv[2])
with open(sys.argv[1], "a") as log:
    while not end.exists():
        log.writelines(f"step {number} of the training, loss 0.123\\n" for number in range(written, written + 1000))
        log.flush()
        written += 1000
        time.sleep(0.01)
    log.write(f"the end after {written} lines\\n")
"""
"""Up to 100 000 lines a second, until there is a second file."""


@pytest.fixture
def flood(runs_root: Path, tmp_path: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """A live run whose log is flooded by a process, and a function that ends the flood."""
    run_dir, end = write_live(runs_root, "20260101-000001-live"), tmp_path / "end"
    with subprocess.Popen([sys.executable, "-c", FLOOD, str(run_dir / LOG_FILE), str(end)]) as process:

        def end_flood() -> None:
            end.touch()
            process.wait()

        yield run_dir, end_flood
        end.touch()


@pytest.mark.slow
def test_flood_of_lines_leaves_the_log_usable(assemble, flood) -> None:
    run_dir, end_flood = flood
    panel = assemble("run", "log")
    panel.until(lambda: panel.run is not None and panel.run.dir == run_dir, "the run")
    panel.open_tab("Log")

    def newest() -> int:
        return max(map(int, re.findall(r"step (\d+) of", panel.log.toPlainText())), default=-1)

    field = panel.window.findChild(QLineEdit, "searchField")
    for _ in range(3):
        seen = newest()
        panel.until(lambda seen=seen: newest() > seen, "newer lines")
        panel.qtbot.keyClick(panel.log, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        assert field.isVisible()
        panel.qtbot.keyClick(field, Qt.Key.Key_Escape)
        assert not field.isVisible()
    end_flood()
    last = (run_dir / LOG_FILE).read_text().splitlines()[-1]
    panel.until(lambda: last in panel.log.toPlainText(), "the end of the output")
    panel.qtbot.keyClick(panel.log, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    panel.qtbot.keyClicks(field, "the end after")
    panel.qtbot.keyClick(field, Qt.Key.Key_Return)
    panel.until(lambda: panel.log.textCursor().selectedText() == "the end after", "the match")


@pytest.mark.slow
def test_shown_run_whose_folder_vanishes_is_explained_and_others_can_be_shown(assemble, runs_root: Path) -> None:
    other = write_run(runs_root, "20260101-000000-other")
    gone = write_live(runs_root, "20260101-000001-gone")
    panel = assemble("run", "history")
    panel.until(lambda: panel.run is not None and panel.run.dir == gone, "the live run")
    shutil.rmtree(gone)
    panel.until(lambda: f"was removed or renamed: {gone}" in panel.message(), "the message")
    panel.until(lambda: panel.runs.count() == 1, "the list without the run")
    panel.window.controllers.run.attach_to(str(other))
    panel.until_state("Finished")
    assert panel.message() == ""
