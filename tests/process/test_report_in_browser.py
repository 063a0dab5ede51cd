"""The report on twenty runs of a million steps each in a real browser without a network.

It needs Qt WebEngine (package PySide6-Addons) in this Python, or in the one that TRAINYARD_TEST_BROWSER names; and
Linux namespaces for a process without a network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from core.schema.events import metrics_line
from tests.support import browser
from tests.support.commands import call
from tests.support.written_runs import BEGAN, write_run

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtGui import QImage

RUNS, STEPS, BATCH = 20, 1_000_000, 10_000
PYTHON = os.environ.get("TRAINYARD_TEST_BROWSER", sys.executable)
READ = """
JSON.stringify({
  title: document.title,
  rows: [...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.textContent)),
  curves: [...document.querySelectorAll('svg .lines path')].map(path => {
    const end = path.getPointAtLength(path.getTotalLength()), box = path.getBoundingClientRect();
    return {x: end.x, y: end.y, width: box.width, height: box.height, colour: getComputedStyle(path).stroke};
  }),
  around: document.querySelector('svg').getBoundingClientRect().width,
  page: [document.documentElement.scrollWidth, document.documentElement.clientWidth],
  there: document.querySelector('figure').scrollIntoView() || document.querySelector('svg').getBoundingClientRect().y
})
"""


def _can_browse() -> str:
    """Return why there is no browser here; the empty string if there is one."""
    found = subprocess.run([PYTHON, "-c", "import PySide6.QtWebEngineWidgets"], capture_output=True, check=False)
    if found.returncode:
        return f"{PYTHON} has no Qt WebEngine (PySide6-Addons)"
    alone = subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True, check=False)
    return "this machine allows no network namespaces" if alone.returncode else ""


def last_loss(number: int) -> float:
    return round(0.25 + number / 100, 6)


def write_long_run(root: Path, number: int) -> Path:
    chance, steps = np.random.default_rng(number), np.arange(1, STEPS + 1)
    losses = np.round(2 * np.exp(-steps / 2e5) + 0.0005 * chance.standard_normal(STEPS) + last_loss(number), 6)
    losses[-1] = last_loss(number)
    run_dir = write_run(root, f"run-{number:02}")
    with (run_dir / "events" / "worker-0.jsonl").open("w") as file:
        for first in range(0, STEPS, BATCH):
            batch = losses[first : first + BATCH].tolist()
            since, until = (BEGAN + 1 + at / 1000 for at in (first, first + BATCH))
            line = metrics_line(since=since, until=until, first_step=first + 1, values={"loss": batch})
            file.write(f"{line.rstrip()}\n")
    return run_dir


def browse(page: Path, picture: Path) -> dict[str, Any]:
    """Open a page in a browser that has no network, not even an address of its own."""
    command = [PYTHON, str(browser.__file__), str(page), READ, str(picture)]
    done = subprocess.run(
        ["unshare", "--map-root-user", "--net", *command], capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_browser_without_a_network_shows_every_curve_and_number(tmp_path: Path, capsys) -> None:
    if reason := _can_browse():
        pytest.skip(reason)
    runs = [write_long_run(tmp_path, number) for number in range(RUNS)]
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    assert call(capsys, "report", *runs, "--output", page)[0] == 0
    assert page.stat().st_size < 2e6
    found = browse(page, picture)
    assert (found["loaded"], found["asked"], found["said"]) == (True, [], [])
    seen = json.loads(found["result"])
    assert seen["title"] == f"Report on {RUNS} runs"
    metrics = {row[0]: row for row in seen["rows"] if len(row) == 7 and row[1] == "loss"}
    assert {name: float(row[4]) for name, row in metrics.items()} == {
        run.name: last_loss(number) for number, run in enumerate(runs)
    }
    assert {row[2] for row in metrics.values()} == {str(STEPS)}
    curves = seen["curves"]
    assert len(curves) == RUNS
    assert all(each["width"] > 0.8 * seen["around"] and each["height"] > 50 for each in curves)
    ends = [each["y"] for each in curves]
    assert ends == sorted(ends, reverse=True), "a higher last loss ends higher up"
    assert len({each["colour"] for each in curves}) == 12, "all colours of the page"
    assert seen["page"][0] <= seen["page"][1], "the page itself is not wider than the window"
    assert _colours(picture) > 12, "they are painted, too"


def _colours(picture: Path) -> int:
    """Return the number of different colours in the upper half of a picture."""
    from PySide6.QtGui import QImage

    image: QImage = QImage(str(picture))
    return len({image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height() // 2, 3)})
