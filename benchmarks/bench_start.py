"""Time from the command to a usable window, over that of a bare PySide6 + pyqtgraph window with one plot.

Usable: painted, with the devices in their rows and everything to start a run. The plots are created just after this
first frame; the time until they are painted, too, is the second measurement. Each start is a process of its own,
offscreen, the two in turn. Target: usable in at most 1.8 times the time of the bare one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import table, write_json

PAIRS = 9
TARGET = 1.8
MAX_WAIT_S = 60.0
"""Seconds after which a start has failed: a process that waits for ever would slow down everything else."""
ROOT = Path(__file__).parents[1]

BARE = """
import sys
import pyqtgraph as pg
from PySide6.QtWidgets import QApplication, QMainWindow
from benchmarks.bench_start import wait_for_paint
app = QApplication([])
window = QMainWindow()
window.resize(1480, 900)
plot = pg.PlotWidget()
plot.plot([0.0, 1.0, 2.0], [2.0, 1.0, 0.5])
window.setCentralWidget(plot)
window.show()
wait_for_paint(plot.viewport(), lambda: True)
sys.stdout.write("usable\\ncomplete\\n"); sys.stdout.flush()
"""

OURS = """
import sys
from PySide6.QtWidgets import QApplication, QTreeView, QWidget
from benchmarks.bench_start import wait_for_paint
def usable(*_):
    window = next(widget for widget in QApplication.topLevelWidgets() if widget.objectName() == "" and widget.isWindow()
                  and widget.findChild(QTreeView, "deviceTable"))
    devices = window.findChild(QTreeView, "deviceTable")
    wait_for_paint(devices.viewport(), lambda: devices.model().rowCount() > 0)
    sys.stdout.write("usable\\n"); sys.stdout.flush()
    while window.findChild(QWidget, "memoryPlot") is None:
        QApplication.processEvents()
    plot = window.findChild(QWidget, "memoryPlot")
    plot.update()  # it may have been painted already
    wait_for_paint(plot, lambda: True)
    sys.stdout.write("complete\\n"); sys.stdout.flush()
    window.close()
    return 0
QApplication.exec = usable
from core.cli.__main__ import main
sys.exit(main(["--runs", sys.argv[1]]))
"""


def wait_for_paint(widget: object, ready: object) -> None:
    """Run the event loop until `ready()` holds and the widget has been painted with it. Raises `TimeoutError`."""
    from PySide6.QtCore import QEvent, QObject
    from PySide6.QtWidgets import QApplication

    class Painted(QObject):
        seen = False

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
            if event.type() == QEvent.Type.Paint and ready():
                self.seen = True
            return False

    painted = Painted()
    widget.installEventFilter(painted)
    until = time.monotonic() + MAX_WAIT_S
    while not painted.seen:
        if time.monotonic() > until:
            raise TimeoutError("the window was not painted")
        QApplication.processEvents()


def start_s(code: str, folder: str) -> tuple[float, float]:
    """Return the seconds from the start of the process until it is usable, and until it is complete."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "QT_QPA_PLATFORM": "offscreen",
        "TRAINYARD_CONFIG_DIR": folder,
        "PYTHONPYCACHEPREFIX": f"{folder}/compiled",  # of both, as an installation has it
    }
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, f"{folder}/runs"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    took = []
    for expected in ("usable\n", "complete\n"):
        word = process.stdout.readline()
        took.append(time.perf_counter() - began)
        assert word == expected, word
    process.communicate()
    usable_s, complete_s = took
    return usable_s, complete_s


def main() -> int:
    """Measure in pairs, after one of each that compiles the sources and warms the file cache."""
    with tempfile.TemporaryDirectory() as folder:
        for code in (BARE, OURS):
            start_s(code, folder)
        pairs = [(start_s(BARE, folder), start_s(OURS, folder)) for _ in range(PAIRS)]
    bare, usable, complete = (
        statistics.median(times) for times in zip(*((bare[0], *ours) for bare, ours in pairs), strict=True)
    )
    ratio = statistics.median(ours[0] / bare[0] for bare, ours in pairs)
    complete_ratio = statistics.median(ours[1] / bare[0] for bare, ours in pairs)
    table(
        f"Start to a usable window, medians of {PAIRS} pairs",
        ["window", "seconds", "ratio", "target"],
        [
            ["bare PySide6 + pyqtgraph", f"{bare:.3f}", "1", ""],
            ["trainyard, usable", f"{usable:.3f}", f"{ratio:.2f}", f"{TARGET}"],
            ["trainyard, with its plots", f"{complete:.3f}", f"{complete_ratio:.2f}", ""],
        ],
    )
    results = {"bare_s": bare, "usable_s": usable, "ratio": ratio, "target": TARGET}
    write_json("start", {"pairs_s": pairs, **results, "complete_s": complete, "complete_ratio": complete_ratio})
    return 0


if __name__ == "__main__":
    sys.exit(main())
