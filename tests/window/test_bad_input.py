"""Runs that no supervisor would write: a flood of output, a vanished folder, an imported run, damage on purpose.

How long the window stands still meanwhile is measured by `benchmarks/bench_event_loop.py`.

Settings that are damaged or newer are in `test_preferences`, languages and fonts in `test_language`, screens that are
gone in `test_window_manager`.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QScrollArea
from pytestqt.qtbot import QtBot

from core.cli import __main__
from core.history.index import is_run
from core.schema.paths import LOG_FILE
from tests.process.test_hostile_runs import batches
from tests.support.hostile_runs import Hostile, watched
from tests.support.recorded_events import PYTORCH
from tests.support.written_runs import write_run
from tests.window.driving import Driver
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


@pytest.mark.parametrize("count", [1, pytest.param(None, marks=pytest.mark.soak)])
def test_window_survives_a_click_on_each_hostile_run(count: int | None, qtbot: QtBot, runs_root: Path) -> None:
    """Costs eight seconds: one window, thirty runs."""
    for seed in batches(count):
        hostile = Hostile(runs_root, Random(seed))
        runs = [each for each in map(hostile.run, range(30)) if is_run(each)]
        with watched(lambda seed=seed: f"the window of seed {seed}"):
            driver = Driver(qtbot, runs_root)
            driver.until(lambda driver=driver, runs=runs: driver.runs.count() == len(runs), "all runs")
        for row in range(driver.runs.count()):
            name = driver.runs.item(row).text()[:80]
            with watched(lambda seed=seed, name=name: f"seed {seed}, a click on {name!r}"):
                driver.runs.scrollToItem(driver.runs.item(row))
                place = driver.runs.visualItemRect(driver.runs.item(row)).center()
                qtbot.mouseClick(driver.runs.viewport(), Qt.MouseButton.LeftButton, pos=place)
                with qtbot.waitSignal(driver.window.services.poll_timer.timeout):
                    pass
                driver.until(lambda driver=driver: driver.window.services.session.opening is None, "the whole run")
        driver.close()
        hostile.clear()


def test_an_imported_run_is_shown_and_refuses_to_start(assemble, runs_root, tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events.out.tfevents.1700000000.host.1").write_bytes(PYTORCH)
    assert __main__.main(["import", "--runs", str(runs_root), str(tmp_path / "logs")]) == 0
    driver = assemble("run", "start", "history")
    driver.until(lambda: driver.runs.count() == 1, "the run")
    (run_dir,) = runs_root.iterdir()
    driver.window.controllers.run.attach_to(str(run_dir))
    session = driver.window.services.session
    driver.until(lambda: session.run_series is not None and "val_loss" in session.run_series.metrics, "its curves")
    menu = driver.window.panels.header.again.run_menu
    before = sorted(runs_root.iterdir())
    for action in ("again", "edit", "copy", "keep"):
        menu.action(action).trigger()
        assert f"Run logs was imported from {tmp_path / 'logs'}: " in driver.message("messageStrip")
    assert sorted(runs_root.iterdir()) == before
    view = driver.window.findChild(QScrollArea, "settingsView")
    driver.open_tab("Settings")
    texts = [label.text() for label in view.findChildren(QLabel)]
    assert {"Imported from", str(tmp_path / "logs"), str(run_dir)} <= set(texts)
    assert not any("trainyard run" in text for text in texts)
