"""How the log view copes with a flood of output, and what watching costs the program that prints it.

    python -m benchmarks.bench_log [--seconds N] [--pairs N]

A real child process prints into a file, which an offscreen window page with the log follows at the window's pace.

- turns: each kind of output for some seconds. A turn is the time between two runs of a timer of 1 ms, which is how
  long a click would have to wait. The next columns are the time of the page itself per poll, painting included.
- intake: a child writes as fast as it can, in pairs: with the page following its file, and without a page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from benchmarks.report import Stolen, table, write_json
from gui.base import theme as themes
from gui.base.theme import DARK
from gui.base.timers import LIVE_MS
from gui.features.log.page import LogPage

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

MARK_MS, MARK_MB_PER_S = 50, 200
SIZE_PX = (900, 220)
WARM_UP_S = 0.5
KINDS = {
    "a million lines a minute": "line = b'epoch 3 step %d loss 0.5123 accuracy 0.871 12.3 ms\\n'\n"
    "while True:\n    out.write(b''.join(line % n for n in range(167)))\n    out.flush(); time.sleep(0.01)\n",
    "the same in colours": "line = b'\\x1b[32mINFO\\x1b[0m step \\x1b[1m%d\\x1b[0m loss \\x1b[36m0.51\\x1b[0m ok\\n'\n"
    "while True:\n    out.write(b''.join(line % n for n in range(167)))\n    out.flush(); time.sleep(0.01)\n",
    "progress bars": "n = 0\nwhile True:\n    n += 1\n    out.write(b'\\r%d%%|%s|' % (n % 100, b'#' * (n % 100)))\n"
    "    if n % 100 == 0: out.write(b'\\n'); out.flush(); time.sleep(0.001)\n",
    "lines of 10 MB": "while True:\n    out.write(b'x' * 10_000_000 + b'\\n'); out.flush(); time.sleep(0.1)\n",
    "binary rubbish": "while True:\n    out.write(os.urandom(200_000)); out.flush(); time.sleep(0.02)\n",
    "as fast as it can": "line = b'epoch 3 step 4 loss 0.5123 accuracy 0.871 12.3 ms\\n' * 2000\n"
    "while os.fstat(out.fileno()).st_size < 6_000_000_000:\n    out.write(line)\n",
}
CHILD = "import os, sys, time\nout = open(sys.argv[1], 'wb')\n"
WRITER = """
began = time.perf_counter()
line = b'epoch 3 step 4 loss 0.5123 accuracy 0.871 12.3 ms\\n' * 2000
for _ in range(int(sys.argv[2]) * 1_000_000 // len(line)):
    out.write(line)
out.close()
print(time.perf_counter() - began)
"""
INTAKE_MB = 1000


def main() -> None:
    """Measure both; print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each kind of output goes on")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    themes.apply(app, DARK)
    stolen = Stolen()
    turns = [_turns(app, kind, given.seconds) for kind in KINDS]
    header = ("output", "MB/s written", "turn, longest", "99th", "the page's own: longest", "99th", "lines shown")
    names = ("written_mb_per_s", "longest_ms", "p99_ms", "own_longest_ms", "own_p99_ms", "lines")
    rows = [(row["kind"], *(f"{row[name]:.1f}" for name in names)) for row in turns]
    table(f"Event loop turns while a page of {SIZE_PX[0]} x {SIZE_PX[1]} follows, ms (mark: {MARK_MS})", header, rows)
    pairs = [_pair(app, number) for number in range(given.pairs)]
    ratio = median(watched / alone for watched, alone in pairs)
    table(
        f"Intake of {INTAKE_MB} MB, MB/s (mark: {MARK_MB_PER_S})",
        ("watched", "unwatched", "ratio"),
        [(f"{watched:.0f}", f"{alone:.0f}", f"{watched / alone:.3f}") for watched, alone in pairs],
    )
    print(f"Watched over unwatched: {ratio:.3f} (median). Stolen by the host: {stolen.share():.1%}.")
    print("written:", write_json("log", {"turns": turns, "intake": pairs, "ratio": ratio}))


class _Page:
    """A page that is looked at, and how long it took each time."""

    def __init__(self, folder: Path) -> None:
        self.own_s: list[float] = []
        self.turns_s: list[float] = []
        self.page = LogPage()
        self.page.resize(*SIZE_PX)
        self.page.show()
        self.page.show_run(folder)
        self._beat, self._ticks = QTimer(), QTimer()
        self._last = time.perf_counter()
        self._beat.timeout.connect(self._follow)
        self._ticks.timeout.connect(self._tick)
        self._beat.start(LIVE_MS)

    def count_turns(self) -> None:
        """From now on: such a timer takes its part of a core, so it is on only where turns are measured."""
        self._last = time.perf_counter()
        self._ticks.start(1)
        self.own_s.clear()

    def close(self) -> None:
        self._beat.stop()
        self._ticks.stop()
        self.page.deleteLater()

    def _follow(self) -> None:
        began = time.perf_counter()
        self.page.follow()
        self.page.view.viewport().repaint()  # which Qt would do at the end of the same turn
        self.own_s.append(time.perf_counter() - began)

    def _tick(self) -> None:
        now = time.perf_counter()
        self.turns_s.append(now - self._last)
        self._last = now


def _turns(app: QApplication, kind: str, seconds: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        child = subprocess.Popen([sys.executable, "-c", CHILD + KINDS[kind], str(log)])
        page = _Page(Path(folder))
        try:
            _run(app, WARM_UP_S)
            began, before = time.perf_counter(), log.stat().st_size
            page.count_turns()
            _run(app, seconds)
            written = (log.stat().st_size - before) / (time.perf_counter() - began) / 1e6
        finally:
            child.kill()
            child.wait()
        page.close()
        turns, own = np.array(page.turns_s) * 1e3, np.array(page.own_s) * 1e3
        return {
            "kind": kind,
            "written_mb_per_s": written,
            "longest_ms": float(turns.max()),
            "p99_ms": float(np.percentile(turns, 99)),
            "own_longest_ms": float(own.max()),
            "own_p99_ms": float(np.percentile(own, 99)),
            "lines": page.page.view.blockCount(),
        }


def _pair(app: QApplication, number: int) -> tuple[float, float]:
    """MB/s of a child that writes: watched, and unwatched. Which comes first changes from pair to pair."""
    found = {watched: _intake(app, watched=watched) for watched in ((True, False) if number % 2 else (False, True))}
    return found[True], found[False]


def _intake(app: QApplication, *, watched: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", CHILD + WRITER, str(Path(folder) / "log.txt"), str(INTAKE_MB)]
        page = _Page(Path(folder)) if watched else None
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        while child.poll() is None:
            _run(app, 0.05)
        out = child.communicate()[0]
        if page is not None:
            page.close()
        return INTAKE_MB / float(out)


def _run(app: QApplication, seconds: float) -> None:
    """Let the event loop run for so long."""
    QTimer.singleShot(round(seconds * 1000), app.quit)
    app.exec()


if __name__ == "__main__":
    main()
