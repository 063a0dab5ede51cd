"""What watching costs while nothing trains: the share of a core that an idle window uses, and that the sampler uses.

    python -m benchmarks.bench_idle

The window is drawn offscreen, with 8 and with 64 GPUs of the stand-in library, which answers in no time: what is
measured is ours. The sampler is read as a supervisor reads it, 8 GPUs once a second, with as many looks between; both
with their helper processes. Beside them what a bare PySide6 window with a timer of ten beats a second uses, and a bare
loop of as many naps. Marks: 1.5 % of a core for the window with 8 GPUs, 3 % with 64, 2.5 % with the hosts below, and
0.3 % for the sampler.

One window has 4 hosts with 8 GPUs each beside 8 GPUs of its own, through a real ssh server; what the other side of a
connection uses is not counted. Beside it one with 40 GPUs of its own. Without an ssh server both are left out.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil
import pytest

from benchmarks.report import table, write_json
from core.system.folders import HOSTS_FILE
from tests.nvml.standin import ROOT, StandIn, build
from tests.support.ssh_server import TRAINYARD, run_server

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTLE_S = 8.0
MEASURED_S = 20.0
ROUNDS = 3
HOSTS = 4
WITH_HOSTS, ALONE = f"window, 8 GPUs and {HOSTS} hosts with 8", "window, 40 GPUs"
MARKS_PERCENT = {"window, 8 GPUs": 1.5, "window, 64 GPUs": 3.0, "sampler, 8 GPUs": 0.3, WITH_HOSTS: 2.5}

WINDOW = """
import sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from gui.app import create_window
app = QApplication([])
window = create_window(Path(sys.argv[1]))
window.show()
while len(window.panels.devices.chosen.rows) < int(sys.argv[2]):
    app.processEvents()
print("ready", flush=True)
app.exec()
"""

BARE_WINDOW = """
import sys
import pyqtgraph as pg
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMainWindow
app = QApplication([])
window = QMainWindow()
window.resize(1480, 900)
window.setCentralWidget(pg.PlotWidget())
window.show()
timer = QTimer()
timer.timeout.connect(lambda: None)
timer.start(100)
print("ready", flush=True)
app.exec()
"""

SAMPLER = """
import sys, time
from core.devices.sampler import Sampler
from core.supervisor.supervisor import TICK_S
with Sampler() as found:
    ids = {device.id for device in found.survey(15.0).devices if device.kind == "nvidia"}
assert len(ids) == int(sys.argv[2]), ids
sampler = Sampler(only=ids)
sampler.survey(15.0)
print("ready", flush=True)
while True:
    time.sleep(TICK_S)
    sampler.poll()
    sampler.new_samples()
"""

BARE_LOOP = """
import time
from core.supervisor.supervisor import TICK_S
print("ready", flush=True)
while True:
    time.sleep(TICK_S)
"""

SUBJECTS = {
    "window, 8 GPUs": (WINDOW, 8),
    "window, 64 GPUs": (WINDOW, 64),
    "bare window": (BARE_WINDOW, 0),
    "sampler, 8 GPUs": (SAMPLER, 8),
    "sampler, 64 GPUs": (SAMPLER, 64),
    "bare loop": (BARE_LOOP, 0),
}


def main() -> int:
    """Measure one after the other; print and write the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        standin = StandIn(build(folder), folder)
        shares = {title: _share_percent(code, gpus, standin, folder) for title, (code, gpus) in SUBJECTS.items()}
        shares |= _with_hosts(standin, folder)
    rows = [
        (title, f"{sum(parts.values()):.2f}", f"{parts['own']:.2f}", f"{parts['helpers']:.2f}", _mark(title))
        for title, parts in shares.items()
    ]
    header = ("what", "all, %", "itself, %", "helpers, %", "mark, %")
    table(f"Share of a core while nothing trains, over {MEASURED_S:g} s", header, rows)
    over = [title for title, mark in MARKS_PERCENT.items() if sum(shares.get(title, {}).values()) > mark]
    if over:
        print("Over their marks:", ", ".join(over))
    write_json("idle", {"shares_percent": shares, "marks_percent": MARKS_PERCENT, "seconds": MEASURED_S})
    return 0


def _mark(title: str) -> str:
    return f"{MARKS_PERCENT[title]:g}" if title in MARKS_PERCENT else ""


def _with_hosts(standin: StandIn, folder: Path) -> dict[str, dict[str, float]]:
    """Of a window with hosts, and of one that has as many GPUs itself, in turns."""
    here = folder / "ssh"
    here.mkdir()
    runner = run_server(here)
    try:
        server = next(runner)
    except pytest.skip.Exception as why:
        print(f"Left out: {WITH_HOSTS}: {why}")
        return {}
    config = folder / "with-hosts"
    try:
        standin.write(gpus=8)
        variables = {**standin.env, "NVML_STANDIN_FROZEN": "1"}
        del variables["NVML_STANDIN_CALLS"]
        command = shlex.join(["env", *(f"{name}={value}" for name, value in variables.items()), str(TRAINYARD)])
        config.mkdir()
        rows = [{"name": f"node{number}", "address": "one", "command": command} for number in range(1, HOSTS + 1)]
        (config / HOSTS_FILE).write_text(json.dumps({"version": 1, "hosts": rows}))
        path = {"PATH": f"{server.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "TRAINYARD_CONFIG_DIR": str(config)}
        rounds = [
            {
                WITH_HOSTS: _share_percent(WINDOW, 8 * (HOSTS + 1), standin, folder, gpus_here=8, more=path),
                ALONE: _share_percent(WINDOW, 40, standin, folder),
            }
            for _ in range(ROUNDS)
        ]
        return {
            title: {part: median(each[title][part] for each in rounds) for part in rounds[0][title]}
            for title in (WITH_HOSTS, ALONE)
        }
    finally:
        runner.close()


def _share_percent(
    code: str, gpus: int, standin: StandIn, folder: Path, *, gpus_here: int | None = None,
    more: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Of one core, by the process itself and by those that it started. `gpus`: those that it waits for."""
    standin.write(gpus=gpus if gpus_here is None else gpus_here)
    environment = {**os.environ, **standin.env, "QT_QPA_PLATFORM": "offscreen", "TRAINYARD_CONFIG_DIR": str(folder)}
    environment |= more or {}
    del environment["NVML_STANDIN_CALLS"]
    environment["NVML_STANDIN_FROZEN"] = "1"  # else it looks at its file in every call
    command = [sys.executable, "-c", code, str(folder / "runs"), str(gpus)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "it did not come up"
            time.sleep(SETTLE_S)  # what is done once, after the start, is done by then
            before, began = _spent_s(process.pid), time.monotonic()
            time.sleep(MEASURED_S)
            after, seconds = _spent_s(process.pid), time.monotonic() - began
        finally:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
    return {part: 100 * (after[part] - before[part]) / seconds for part in after}


def _spent_s(pid: int) -> dict[str, float]:
    """Seconds of processor time so far; those of children that have ended count, too."""
    process = psutil.Process(pid)
    own, helpers = process.cpu_times(), [child.cpu_times() for child in process.children(recursive=True)]
    return {
        "own": own.user + own.system,
        "helpers": own.children_user + own.children_system + sum(each.user + each.system for each in helpers),
    }


if __name__ == "__main__":
    raise SystemExit(main())
