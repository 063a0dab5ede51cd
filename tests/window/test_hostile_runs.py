"""The window lists random hostile runs and shows each that is clicked: none raises, hangs, or reads without an end."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt

from core.history.index import is_run
from tests.process.test_hostile_runs import batches
from tests.support.hostile_runs import Hostile, watched
from tests.window.driving import Driver

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

BATCH = 30


@pytest.mark.parametrize("count", [1, pytest.param(None, marks=pytest.mark.soak)])
def test_window_survives_a_click_on_each_hostile_run(count: int | None, qtbot: QtBot, runs_root: Path) -> None:
    """Costs eight seconds: one window, thirty runs."""
    for seed in batches(count):
        hostile = Hostile(runs_root, Random(seed))
        runs = [each for each in map(hostile.run, range(BATCH)) if is_run(each)]
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
