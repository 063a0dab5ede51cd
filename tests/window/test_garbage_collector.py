"""Cyclic garbage with widgets in it ends in the window's thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
CYCLES = 50
CODE = f"""\
import gc, sys, threading
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLabel
import gui.app
from gui.window.main_window import MainWindow

class Cycle:
    def __init__(self):
        self.me, self.label = self, QLabel("in a cycle")
    def __del__(self):
        ended.append(threading.current_thread().name)

def make_garbage(window):
    for _ in range({CYCLES}):
        Cycle()
    allocating = threading.Thread(target=lambda: kept.extend([] for _ in range(200_000)), name="allocating")
    allocating.start()
    allocating.join()
    timer.timeout.connect(lambda: len(ended) == {CYCLES} and window.close())
    timer.start(10)

def open_window(window):
    opens(window)
    QTimer.singleShot(0, window, lambda: make_garbage(window))

ended, kept, timer, opens = [], [], QTimer(), MainWindow._open
MainWindow._open = open_window
gui.app.main(Path(sys.argv[1]))
print(*sorted(set(ended)))
"""


@pytest.mark.slow
def test_garbage_of_a_window_is_collected_in_its_thread_while_another_one_allocates(runs_root):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(runs_root)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["MainThread"]
