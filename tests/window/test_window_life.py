"""The window's lifetime: it closes at once, keeps runs active, says so once, and leaves nothing behind."""

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QToolButton, QWidget, QWidgetItem
from shiboken6.Shiboken import getAllValidWrappers

from core.runs.facts import RunState
from gui.app import create_window, display_problem
from gui.base.jobs import Jobs
from gui.machine.machine import Machine
from gui.widgets.dialogs import InfoDialog
from gui.window.main_window import MainWindow
from tests.support.acting import played
from tests.support.recorded import recorded
from tests.support.running import LONG, start, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.written_runs import values, write_run

ROOT = Path(__file__).parents[2]
WITHOUT_DISPLAY = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}


def command(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.slow
def test_closing_keeps_run_active_and_gives_one_notice(drive, runs_root, tmp_path):
    followed = start(played(tmp_path / "actor"), runs_root).until_trained()
    panel = drive()
    panel.until_state("Running")
    panel.window.show_close_notice = lambda said: (panel.notices.append(said), panel.window.show_notice(said))
    assert panel.window.close()  # a modal notice would block here
    assert not panel.window.isVisible()
    notice = panel.window.notice
    assert isinstance(notice, QWidget)
    assert notice.isVisible()
    assert panel.window.geometry().contains(notice.geometry().center()), "where the window was"
    notice.close()
    assert len(panel.notices) == 1
    assert f"trainyard stop {followed.run.id}" in panel.notices[0]
    step = followed.run.facts.step
    followed.until_trained(step + 50)
    reopened = drive()
    reopened.until_state("Running")
    reopened.window.close()
    assert reopened.notices == []
    assert followed.poll().state is RunState.RUNNING


@pytest.mark.slow
@pytest.mark.parametrize("what", ["start", "remove"])
def test_nothing_is_done_once_the_window_is_closed(drive, runs_root, monkeypatch, what):
    """Its notice may keep the program alive."""
    panel, gate, begun = drive(), threading.Event(), threading.Event()

    def held(work):
        def wait(self, *given):
            begun.set()
            assert gate.wait(PATIENCE_S)
            return work(self, *given)

        return wait

    if what == "start":
        panel.tick("cpu:0")
        panel.until(panel.start_button.isEnabled, "Start to be enabled")
        monkeypatch.setattr(Machine, "check_again", held(Machine.check_again))
        panel.start_button.click()
    else:
        run_dir = write_run(runs_root, "20260101-000000-run", [values(1, 1, 2, loss=[2.0, 1.0])])
        panel.until(lambda: panel.runs.count() == 1, "the run")
        monkeypatch.setattr(Machine, "check_removal", held(Machine.check_removal))
        panel.window.panels.actions.do("remove", [str(run_dir)])
    before = sorted(runs_root.iterdir()) if runs_root.exists() else []
    panel.until(begun.is_set, "the last check")
    panel.window.close()
    gate.set()
    panel.until(lambda: not {"last-check", "size"} & {each.name for each in threading.enumerate()}, "its end")
    other = Jobs(panel.window.panels.runs, "other")
    told = []
    other.start(lambda: None, told.append, told.append)
    panel.until(lambda: told, "another result to arrive")
    assert panel.question() is None
    assert (sorted(runs_root.iterdir()) if runs_root.exists() else []) == before


@pytest.mark.slow
def test_closed_windows_leave_no_helper_processes(qtbot, runs_root, nvml):
    nvml.write(gpus=1)
    others = set(psutil.Process().children())  # such as the worker pool that earlier tests share
    for _ in range(5):
        window = create_window(runs_root)
        window.show()
        qtbot.waitUntil(lambda window=window: len(window.panels.devices.chosen.rows) == 3)
        window.close()
        window.deleteLater()
        QApplication.processEvents()
    gc.collect()
    # Helper processes were asked to exit; the window does not wait for them.
    qtbot.waitUntil(lambda: set(psutil.Process().children()) <= others)


@pytest.mark.slow
def test_plots_follow_first_frame_with_their_saved_settings(drive, qtbot, hold, runs_root):
    panel = drive()
    panel.plot("lossPlot").controls.smoothing_button.set_weight(0.85)
    panel.window.close()
    for polled in (False, True):  # a window that is closed before its first poll keeps the settings of the plots
        window = hold(MainWindow(Machine(runs_root)))  # as the command makes it
        assert len(window.panels.devices.chosen.rows) > 0
        assert window.findChild(QWidget, "lossPlot") is None
        if polled:
            window.show()
            qtbot.waitUntil(lambda window=window: window.findChild(QWidget, "lossPlot") is not None)
            assert window.findChild(QToolButton, "smoothingButton").text() == "smooth 0.85"
        window.close()


def test_without_a_display_that_answers_there_is_one_sentence(runs_root):
    environment = {name: value for name, value in os.environ.items() if name not in WITHOUT_DISPLAY}
    done = command("-m", "core.cli", "--runs", str(runs_root), env=environment)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "no display" in done.stderr
    assert "trainyard run RECIPE --devices ID" in done.stderr
    assert "does not answer" in (display_problem({"DISPLAY": ":4711"}, "linux") or "")
    assert display_problem({"QT_QPA_PLATFORM": "offscreen"}, "linux") is None


INTERRUPTED = """\
import os, signal, sys
from gui.plots.loss import LossPlot
create = LossPlot.__init__
def interrupted(self, **arguments):
    os.kill(os.getpid(), signal.SIGINT)
    create(self, **arguments)
LossPlot.__init__ = interrupted
from core.cli.__main__ import main
sys.exit(main(['--runs', sys.argv[1]]))
"""


@pytest.mark.slow
def test_ctrl_c_closes_the_window_while_its_plots_are_created(runs_root):
    done = command("-c", INTERRUPTED, str(runs_root))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_closes_window(runs_root):
    window = subprocess.Popen(
        [sys.executable, "-m", "core.cli", "--runs", str(runs_root)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: runs_root.is_dir() or window.poll() is not None, "the folder that the first poll creates")
    window.send_signal(signal.SIGINT)
    _, stderr = window.communicate(timeout=PATIENCE_S)
    assert window.returncode == 0
    assert "Traceback" not in stderr


REPLACED = """\
import os, signal, sys, weakref
from PySide6.QtCore import QTimer
from core.cli.__main__ import main
from gui.widgets.dialogs import InfoDialog
from gui.window.main_window import MainWindow

windows, open_window = [], MainWindow._open

def opened(self):
    open_window(self)
    windows.append(weakref.ref(self))
    timer = QTimer(self)
    timer.timeout.connect(lambda: look(self, timer))
    timer.start(20)

def look(self, timer):
    left = [each for each in windows if each() is not None]
    if len(left) > 1:
        return
    if len(windows) < 4:
        self.controllers.preferences.choose("language", ("zh_CN", "en")[len(windows) % 2])
    else:
        timer.stop()
        print(len(windows), "windows", flush=True)
        os.kill(os.getpid(), signal.SIGINT)

MainWindow._open = opened
sys.exit(main(["--runs", sys.argv[1]]))
"""


@pytest.mark.slow
def test_command_goes_on_with_the_window_of_another_language_and_keeps_no_former_one(runs_root):
    done = command("-c", REPLACED, str(runs_root))
    assert (done.returncode, done.stdout) == (0, "4 windows\n"), done.stderr
    assert "Traceback" not in done.stderr


def items() -> set[QWidgetItem]:
    """Return the items of layouts that Python has objects for."""
    return {each for each in getAllValidWrappers() if isinstance(each, QWidgetItem)}


@pytest.mark.slow
def test_no_items_of_layouts_are_kept(drive, qtbot, runs_root, tmp_path) -> None:
    """PySide takes such an item, when Qt has deleted it, for whatever is created at the same address later.

    PySide makes one where code asks a layout for its items, and where a layout that has some is added to another.
    """
    recorded(runs_root)
    before = items()
    panel = drive()
    panel.open_run()
    panel.open_recipe(write_recipe(tmp_path, LONG.replace("items=64", "items=64, noise=0.5, shuffled=True")))
    panel.until(lambda: panel.window.findChild(QLineEdit, "setting-noise") is not None)
    qtbot.keyClick(panel.window, Qt.Key.Key_F6)  # puts all widgets in order
    panel.choose(panel.recipe, "digits_cnn")
    panel.open_tab("Settings")
    panel.window.findChild(QPushButton, "allSettingsButton").click()
    for name in ("about", "preferences", "documents", "keys"):
        panel.window.panels.menu.action(name).trigger()
        assert panel.window.findChild(InfoDialog) is not None
    assert items() <= before  # those of earlier windows may be gone by now


# -- garbage ---------------------------------------------------------------------------------------


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
    done = command("-c", CODE, str(runs_root))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["MainThread"]
