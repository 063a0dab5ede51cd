"""Reports in a real browser without a network: that on a few runs, and a scaling table.

They need a Chromium (package chromium), or the browser of that family that TRAINYARD_TEST_BROWSER names, and Linux
namespaces for a process without a network. They take two seconds each.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QImage

from tests.support import browser, packages
from tests.support.commands import call
from tests.support.running import make_spec
from tests.support.scaling_runs import recorded, trained
from tests.support.waiting import PATIENCE_S
from tests.support.written_runs import values, write_run

WITHOUT_NETWORK = ("unshare", "--map-root-user", "--net")
BROWSER = os.environ.get("TRAINYARD_TEST_BROWSER") or next(filter(shutil.which, packages.BROWSERS), "")
READ = """
JSON.stringify({
  title: document.title,
  rows: [...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.textContent)),
  curves: [...document.querySelectorAll('svg .lines path')].map(path => {
    const end = path.getPointAtLength(path.getTotalLength()), box = path.getBoundingClientRect();
    const style = getComputedStyle(path), band = path.classList.contains('band');
    return {band, y: end.y, width: box.width, height: box.height, colour: band ? style.fill : style.stroke};
  }),
  around: document.querySelector('svg').getBoundingClientRect().width,
  page: [document.documentElement.scrollWidth, document.documentElement.clientWidth],
  there: document.querySelector('figure').scrollIntoView() || document.querySelector('svg').getBoundingClientRect().y
})
"""


@pytest.fixture(autouse=True)
def _can_browse() -> None:
    if not BROWSER:
        pytest.skip(packages.missing(packages.BROWSER))
    if subprocess.run([*WITHOUT_NETWORK, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no network namespaces")


def browse(page: Path) -> dict[str, Any]:
    """Open a page in a browser that has no network, not even an address of its own; return what is in the page.

    A picture of it is in a PNG beside it.
    """
    command = [sys.executable, str(browser.__file__), BROWSER, str(page), READ, str(page.with_suffix(".png"))]
    done = subprocess.run(
        [*WITHOUT_NETWORK, *command], stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["asked"], found["said"]) == ([], [])
    seen: dict[str, Any] = json.loads(found["result"])
    assert seen["page"][0] <= seen["page"][1], "the page itself is not wider than the window"
    return seen


@pytest.mark.slow
def test_curves_bands_and_numbers_of_a_few_runs_are_there(tmp_path: Path, capsys) -> None:
    losses = {"a": [4.0, 3.0, 2.0, 1.0], "b": [2.0, 1.0, 2.0, 2.0], "c": [3.5, 3.2, 3.1, 3.0]}
    for seed, (name, found) in enumerate(losses.items()):
        rate = 0.7 if name == "c" else 0.1
        spec = make_spec("digits_mlp", seed=seed, learning_rate=rate)
        write_run(tmp_path, name, [values(1, 1.0, 4.0, loss=found)], spec=spec)
    page = tmp_path / "report.html"
    assert call(capsys, "report", *losses, "--runs", tmp_path, "--output", page)[0] == 0
    seen = browse(page)
    assert seen["title"] == "Report on 3 runs"
    metrics = {row[0]: float(row[4]) for row in seen["rows"] if len(row) == 7 and row[1] == "loss"}
    assert metrics == {name: found[-1] for name, found in losses.items()}
    band, mean, other = seen["curves"]
    assert [each["band"] for each in seen["curves"]] == [True, False, False]
    assert all(each["width"] > 0.8 * seen["around"] for each in seen["curves"])
    assert band["height"] > mean["height"] > 0
    assert other["y"] < mean["y"], "a higher last loss ends higher up"
    assert other["colour"] != mean["colour"]
    assert _colours(page.with_suffix(".png")) > 3, "they are painted, too"


@pytest.mark.slow
def test_a_scaling_table_is_there_with_its_plots(tmp_path: Path, capsys) -> None:
    recorded(tmp_path, [trained(tmp_path, "one", 1, 2.0), trained(tmp_path, "two", 2, 1.1)]).saved()
    page = tmp_path / "table.html"
    assert call(capsys, "scale", "--show", "table", "--runs", tmp_path, "--html", page)[:2] == (0, "")
    seen = browse(page)
    assert ["2", "ddp", "64", "29.1", "1.82", "91 %", "0.00", "same", "finished"] in seen["rows"]
    measured, ideal = seen["curves"][:2]
    assert 0 < measured["height"] < ideal["height"], "two devices are slower than without any loss"


def _colours(picture: Path) -> int:
    """Return the number of different colours in the upper half of a picture."""
    image = QImage(str(picture))
    return len({image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height() // 2, 3)})
