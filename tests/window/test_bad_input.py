"""The window while a run misbehaves: a flood of output, and a folder that vanishes. About seven seconds.

Settings that are damaged or newer are in `test_preferences`, languages and fonts in `test_language`, screens that are
gone in `test_window_manager`, runs made to do harm in `test_hostile_runs`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit

from core.schema.paths import LOG_FILE
from tests.support.written_runs import write_run
from tests.window.test_missed import write_live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES_A_SECOND, FLOOD_S = 100_000, 3.0
FLOOD = f"""
import sys, time
began, written = time.monotonic(), 0
with open(sys.argv[1], "a") as log:
    while (passed := time.monotonic() - began) < {FLOOD_S}:
        due = int({LINES_A_SECOND} * passed)
        log.writelines(f"step {{number}} of the training, loss 0.123\\n" for number in range(written, due))
        log.flush()
        written = due
        time.sleep(0.01)
    log.write(f"the end after {{written}} lines\\n")
"""
MOST_MS, LONGEST_MS = 50.0, 200.0
"""Processor time of the window's thread in a turn of its event loop: of 99 in 100 turns, and of any. The marks are
lower, in `bench_event_loop`; here other tests use the caches of the same processor."""


@pytest.fixture
def flood(runs_root: Path) -> Iterator[tuple[Path, subprocess.Popen]]:
    """A live run, and the process that floods its log."""
    run_dir = write_live(runs_root, "20260101-000001-live")
    with subprocess.Popen([sys.executable, "-c", FLOOD, str(run_dir / LOG_FILE)]) as process:
        yield run_dir, process


@pytest.mark.slow
def test_flood_of_lines_leaves_the_window_usable(drive, flood) -> None:
    run_dir, process = flood
    panel = drive()
    panel.until(lambda: panel.run is not None and panel.run.dir == run_dir, "the run")
    panel.open_tab("Log")
    turns = []
    while process.poll() is None:
        before = time.thread_time()
        QApplication.processEvents()
        turns.append(1e3 * (time.thread_time() - before))
        time.sleep(0.001)
    assert panel.log.isVisible()
    assert np.percentile(turns, 99) < MOST_MS
    print("turns ms", np.percentile(turns, 50), np.percentile(turns, 99), max(turns))
    assert max(turns) < LONGEST_MS
    last = (run_dir / LOG_FILE).read_text().splitlines()[-1]
    panel.until(lambda: last in panel.log.toPlainText(), "the end of the output")
    panel.qtbot.keyClick(panel.log, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    field = panel.window.findChild(QLineEdit, "searchField")
    panel.qtbot.keyClicks(field, "the end after")
    panel.qtbot.keyClick(field, Qt.Key.Key_Return)
    panel.until(lambda: panel.log.textCursor().selectedText() == "the end after", "the match")


@pytest.mark.slow
def test_shown_run_whose_folder_vanishes_is_explained_and_the_window_goes_on(drive, runs_root: Path) -> None:
    other = write_run(runs_root, "20260101-000000-other")
    gone = write_live(runs_root, "20260101-000001-gone")
    panel = drive()
    panel.until(lambda: panel.run is not None and panel.run.dir == gone, "the live run")
    shutil.rmtree(gone)
    panel.until(lambda: f"was removed or renamed: {gone}" in panel.message(), "the message")
    panel.until(lambda: panel.runs.count() == 1, "the list without the run")
    panel.window.controllers.run.attach_to(str(other))
    panel.until_state("Finished")
    assert panel.message() == ""
