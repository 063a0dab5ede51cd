"""The bell in the header: which ends of runs the user has missed, in windows that are closed, hidden or not active."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QListView, QPushButton, QToolButton, QWidget

from core.diagnosis.evidence import OF_WORKER
from core.language import join_sentences, stored, tr
from core.notifications import start as notifier
from core.notifications.settings import NotificationSettings, save
from core.runs.facts import RunState
from core.schema.paths import EVENTS, SUPERVISOR_EVENTS, worker_events
from core.system import processes
from gui.base.settings_file import SettingsFile, folder_key
from gui.features.runlist import bell as bell_module
from gui.runs.actions import RunActions
from gui.runs.rows import RunRow, run_title
from gui.runs.words import RunHeader
from gui.window.panels import HeaderPanel
from tests.support.acting import played
from tests.support.running import start
from tests.support.tables import cell, cells, middle
from tests.support.written_runs import BEGAN, values, write_run
from tests.window.driving import Driver

HELD = {
    "device": "cpu:0", "verdict": "held by others", "before_bytes": 1, "peak_bytes": 3, "after_bytes": 3,
    "seconds": 1.0, "sentence": "", "holders": [],
}
OPENED = 3600.0
"""How long ago what `write_ended` writes was started, in seconds."""


def write_ended(root: Path, name: str, state: str, ago_s: float, **more: object) -> Path:
    """Write a run that ended some seconds ago. `more`: fields of the event of its end."""
    now = time.time() - BEGAN
    run_dir = write_run(root, name, states=((now - OPENED, "starting"), (now - OPENED + 1, "running")))
    finish(run_dir, state, time.time() - ago_s, **more)
    return run_dir


def write_live(root: Path, name: str, supervisor: int | None = None) -> Path:
    """Write a run that trains, as long as this process, or another one, lives."""
    me = processes.identify(supervisor or os.getpid())
    assert me is not None
    now = time.time() - BEGAN
    began = {"t": BEGAN + now - OPENED, "kind": "supervisor", "pid": me.pid, "created": me.created}
    return write_run(
        root, name, states=((now - OPENED + 1, "starting"), (now - OPENED + 2, "running")),
        more=[{**began, **asdict(processes.here())}],
    )


def finish(run_dir: Path, state: str, when: float | None = None, **more: object) -> None:
    """Write the end of a run."""
    when = when or time.time()
    release = more.pop("release", None)
    lines = [
        {"t": when - 1, "kind": "state", "state": "releasing"},
        {"t": when, "kind": "state", "state": state, **more},
    ]
    if release is not None:
        lines.insert(1, {"t": when - 0.5, "kind": "release", **release})  # type: ignore[dict-item]
    with (run_dir / EVENTS / SUPERVISOR_EVENTS).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


class Bell:
    """The button of one window, and its list."""

    def __init__(self, panel: Driver) -> None:
        self.panel = panel
        self.button = panel.window.findChild(QToolButton, "missedButton")

    @property
    def list(self) -> QListView:
        return self.button.findChild(QListView, "missedList")

    @property
    def lines(self) -> list[str]:
        return [text.replace("\n", ": ") for (text,) in cells(self.list)]

    @property
    def spoken(self) -> str:
        return QAccessible.queryAccessibleInterface(self.button).text(QAccessible.Text.Name)

    def open(self) -> None:
        self.panel.qtbot.mouseClick(self.button, Qt.MouseButton.LeftButton)
        self.panel.until(self.list.isVisible, "the list")

    def until(self, count: str) -> None:
        self.panel.until(lambda: self.button.isVisible() and self.button.text() == count, f"{count!r} at the bell")


def ready(panel: Driver) -> Bell:
    """Return the bell of a window that is active, and has read the runs below its folder."""
    panel.window.activateWindow()
    panel.until(panel.window.isActiveWindow, "the active window")
    panel.poll()
    panel.window.services.run_list.poll(now=True)
    return Bell(panel)


@pytest.fixture
def bell(assemble: Callable[..., Driver]) -> Callable[[], Bell]:
    """Return a function that makes what follows the runs, and shows one of them, in a window of its own."""
    return lambda: ready(assemble("missed", "run"))


def listed(bell: Bell, run_dir: Path, state: str) -> Callable[[], bool]:
    """Return whether the list of runs shows a run in a state."""
    run_list = bell.panel.window.services.run_list
    return lambda: (found := run_list.summary(str(run_dir))) is not None and found.state.value == state


@pytest.mark.slow
def test_what_ended_while_window_was_closed_is_told_once(bell, runs_root):
    write_ended(runs_root, "20260101-000000-old", "failed", 60, error="It burnt.")
    first = bell()
    assert not first.button.isVisible(), "old runs at a first start are no news"
    first.panel.close()
    damaged = {"version": 2, "looked": "soon", "missed": [1], "seen": {"a": "b"}, "going": ["x"], "ends": {"a": None}}
    SettingsFile().save({f"{folder_key(runs_root)}/missed": damaged})
    first = bell()
    assert not first.button.isVisible(), "damaged settings are those of a first start"
    first.panel.close()
    write_ended(runs_root, "20260101-000001-one", "finished", 0, release=HELD)
    error = join_sentences([tr(OF_WORKER, phrase="Worker 0 on cpu:0"), "ValueError: No cats."])
    write_ended(runs_root, "20260101-000002-two", "failed", 0, error=stored(error))
    second = bell()
    second.until("2")
    assert second.spoken == "2 runs that you missed"
    second.open()
    assert second.lines == [
        "digits_mlp: failed · ValueError: No cats.", "digits_mlp: finished · memory used by others",
    ]
    assert cell(second.list, 1, 0, Qt.ItemDataRole.AccessibleTextRole).startswith(
        "digits_mlp, finished · memory used by others, "
    )
    second.until("")
    assert second.spoken == "Runs that you missed, all seen"
    second.panel.close()
    third = bell()
    assert not third.button.isVisible(), "the list was opened"


@pytest.mark.slow
def test_what_was_not_looked_at_is_told_again_by_next_window(bell, runs_root):
    bell().panel.close()
    write_ended(runs_root, "20260101-000001-one", "finished", 0)
    second = bell()
    second.until("1")
    second.panel.close()
    third = bell()
    third.until("1")
    third.open()
    third.panel.qtbot.mouseClick(third.button.findChild(QPushButton, "missedSeenButton"), Qt.MouseButton.LeftButton)
    assert not third.button.isVisible()
    assert not third.list.isVisible()
    third.panel.close()
    assert not bell().button.isVisible()


@pytest.mark.slow
def test_run_that_is_lost_while_window_is_closed_is_news(bell, runs_root):
    """The last event of a lost run is older than the last look of the window that was closed."""
    run_dir = write_live(runs_root, "20260101-000001-live")
    first = bell()
    first.panel.until(listed(first, run_dir, "running"))
    first.panel.close()
    shutil.rmtree(run_dir)
    run_dir = write_live(runs_root, "20260101-000001-live")
    path = run_dir / EVENTS / SUPERVISOR_EVENTS
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', '"pid": 4100'))
    second = bell()
    second.until("1")
    assert second.lines[0].startswith("digits_mlp: lost · ")
    shutil.rmtree(run_dir)
    second.panel.until(lambda: not second.button.isVisible(), "the end of the bell of a run that was deleted")


@pytest.mark.parametrize("away", ["minimised", "hidden", "behind another window"])
def test_only_what_ends_while_window_is_not_in_use_is_news(bell, runs_root, hold, away):
    before = write_live(runs_root, "20260101-000001-before")
    after = write_live(runs_root, "20260101-000002-after")
    found = bell()
    window, other = found.panel.window, hold(QWidget())
    found.panel.until(listed(found, after, "running"))
    finish(before, "finished")
    found.panel.until(listed(found, before, "finished"))
    assert not found.button.isVisible(), "its user has the window before them"
    if away == "minimised":
        window.showMinimized()
    elif away == "hidden":
        window.hide()
    else:
        other.show()
        other.activateWindow()
        found.panel.until(lambda: not window.isActiveWindow(), "another active window")
    found.panel.poll()
    finish(after, "finished")
    found.panel.until(listed(found, after, "finished"))
    other.close()
    window.showNormal()
    window.activateWindow()
    found.until("1")
    assert found.panel.window.controllers.missed._missed.runs[0][0].dir == after


def test_alarm_is_in_a_message_and_at_the_bell_until_it_ends_unless_it_is_switched_off(bell, runs_root, monkeypatch):
    free, sent = [19 * 2**30], []
    monkeypatch.setattr(notifier, "shutil", SimpleNamespace(disk_usage=lambda _: (1000 * 2**30, 0, free[0])))
    monkeypatch.setattr(notifier.Notifier, "notify", lambda _, what, *__: sent.append(what))
    monkeypatch.setattr(notifier, "LOOK_S", 0.0)
    monkeypatch.setattr(bell_module, "LOOK_S", 0.0)
    run_dir = write_live(runs_root, "20260101-000001-live")
    with (run_dir / EVENTS / worker_events(0)).open("w") as file:
        file.write(json.dumps(values(1, 1, 2, loss=[1.0, float("nan")])) + "\n")
    found = bell()
    strip, disk = found.panel.window.panels.alarms, "The disk is nearly full: This machine"
    found.until("2")
    title = run_title(found.panel.window.services.run_list.summary(str(run_dir)), time.time())
    nan = f"The loss of a run becomes NaN: {title}"
    assert (found.spoken, found.lines) == ("2 alarms", [nan, disk])
    low = f"Only 19.0 GB are free on the disk of {runs_root}."
    assert strip.text.startswith(low)
    assert sent == [], "the supervisor of the run sends these"
    with (run_dir / EVENTS / SUPERVISOR_EVENTS).open("a") as file:
        file.write(json.dumps({"t": time.time(), "kind": "stall", "text": "No step."}) + "\n")
    found.until("3")
    assert found.lines == [nan, f"A run makes no progress: {title}", disk]
    found.open()
    assert not found.button.findChild(QPushButton, "missedSeenButton").isVisible(), "alarms are not marked as seen"
    found.panel.qtbot.keyClick(found.list, Qt.Key.Key_Down)
    found.panel.until_polled(5)
    assert found.list.currentIndex().row() == 1, "the second alarm of the same run stays the current one"
    found.panel.qtbot.mouseClick(found.list.viewport(), Qt.MouseButton.LeftButton, pos=middle(found.list, 0))
    assert found.panel.run.dir == run_dir
    save(NotificationSettings(occasions=("finished",)))
    found.panel.until(lambda: not found.button.isVisible() and not strip.is_open, "the end of what is switched off")
    save(NotificationSettings())
    finish(run_dir, "failed", error="It burnt.")
    found.panel.until(lambda: found.lines == [disk] and strip.is_open, "the alarm of the disk alone")
    free[0] = 500 * 2**30
    found.panel.until(lambda: not found.button.isVisible() and not strip.is_open, "the end of the alarm")
    free[0] = 19 * 2**30
    found.panel.until(lambda: sent == ["disk"], "the notification, since there is no run to send it")


@pytest.mark.slow
def test_line_opens_its_run_and_leaves_the_list(bell, drive, runs_root):
    bell().panel.close()
    names = ("20260101-000001-one", "20260101-000002-two")
    one, two = (write_ended(runs_root, name, "finished", 0) for name in names)
    found = ready(drive())
    found.until("2")
    window, qtbot = found.panel.window, found.panel.qtbot
    stops = []
    while window.focusWidget() is not found.button and len(stops) < 10:
        qtbot.keyClick(window.focusWidget() or window, Qt.Key.Key_Tab)
        stops.append(window.focusWidget())
    assert window.focusWidget() is found.button, stops
    qtbot.keyClick(found.button, Qt.Key.Key_Space)
    found.panel.until(found.list.isVisible)
    qtbot.keyClick(found.list, Qt.Key.Key_Escape)
    assert not found.list.isVisible()
    assert found.button.isVisible(), "the list can be opened again"
    qtbot.keyClick(found.button, Qt.Key.Key_Space)
    qtbot.keyClick(found.list, Qt.Key.Key_Down)
    qtbot.keyClick(found.list, Qt.Key.Key_Return)
    assert found.panel.run.dir == one
    assert not found.list.isVisible()
    assert len(found.lines) == 1
    found.open()
    qtbot.mouseClick(found.list.viewport(), Qt.MouseButton.LeftButton, pos=middle(found.list, 0))
    assert found.panel.run.dir == two
    assert not found.button.isVisible()


@pytest.mark.slow
def test_stop_of_ones_own_is_no_news_and_that_of_others_is(bell, runs_root, tmp_path):
    mine, theirs = (start(played(tmp_path / name, name=name), runs_root).until_trained() for name in ("mine", "theirs"))
    found = bell()
    window = found.panel.window
    found.panel.until(listed(found, theirs.run.dir, "running"))
    window.controllers.run.attach_to(str(mine.run.dir))
    found.panel.stop()
    window.showMinimized()
    found.panel.poll()
    theirs.run.request("stop")
    assert mine.until_over().state is theirs.until_over().state is RunState.STOPPED
    window.showNormal()
    window.activateWindow()
    found.until("1")
    found.panel.until(listed(found, mine.run.dir, "stopped"))
    assert [line.partition(" · ")[0] for line in found.lines] == ["theirs: stopped"]


@pytest.mark.styled
def test_progress_gives_way_to_bell_in_narrow_header(hold, qtbot, tmp_path):
    window, header = hold(QWidget()), HeaderPanel(RunActions())
    header.setParent(window)  # a window of its own would grow
    header.show_compact(compact=True)
    header.show_header(
        RunHeader(label="Running", name="resnet_cats", what="PyTorch, data parallel (DDP) on 8 devices",
                  epoch="epoch 13 of 30", fraction=0.4, detail="2 560 samples/s · 1:11:50 left")
    )
    header.resize(2000, 60)
    window.show()
    detail, bar = header.progress.detail, header.progress.bar
    qtbot.waitUntil(bar.isVisible)
    header.resize(header.layout().totalMinimumSize().width(), 60)
    assert bar.isVisible(), "there is just enough room for it"
    height = header.sizeHint().height()
    row = RunRow(dir=tmp_path, title="a", outcome="finished", mark="tick", tone="good", tip="")
    header.missed.show_rows([row], 1)
    epoch = header.progress.epoch
    qtbot.waitUntil(lambda: header.missed.isVisible() and not (bar.isVisible() and epoch.isVisible()))
    assert header.sizeHint().height() == height, "nothing below the header moves"
    qtbot.waitUntil(lambda: detail.mapTo(header, detail.rect().topRight()).x() < header.missed.x())
    assert header.missed.geometry().right() <= header.rect().right()
    header.resize(header.width() - 80, 60)
    qtbot.waitUntil(lambda: not bar.isVisible() and not epoch.isVisible())
    qtbot.waitUntil(lambda: detail.mapTo(header, detail.rect().topRight()).x() < header.missed.x())
    header.missed.show_rows([])
    header.resize(2000, 60)
    qtbot.waitUntil(bar.isVisible)
    assert epoch.isVisible()


@pytest.mark.slow
def test_what_was_seen_in_one_window_is_missed_in_none(bell, runs_root):
    bell().panel.close()
    write_ended(runs_root, "20260101-000001-one", "finished", 0)
    first, second = bell(), bell()
    first.until("1")
    second.until("1")
    second.open()
    second.list.parentWidget().close()
    later = write_ended(runs_root, "20260101-000002-two", "finished", 0)
    first.panel.poll()  # it lists the run first: otherwise the second, which is in use, says that it was seen
    first.panel.window.services.run_list.poll(now=True)
    second.panel.until(lambda: listed(first, later, "finished")() and listed(second, later, "finished")())
    missed = first.panel.window.controllers.missed._missed
    first.panel.until(lambda: [run.dir for run, _ in missed.runs] == [later], "the other run alone, the first was seen")
    assert second.lines == ["digits_mlp: finished"], "its user has the window before them"
    first.panel.window.activateWindow()
    first.panel.until(lambda: not first.button.isVisible(), "the end of the other bell")
    second.panel.close()
    first.panel.close()
    assert not bell().button.isVisible()


@pytest.mark.slow
def test_what_was_missed_stays_while_the_language_changes(bell, drive, runs_root):
    bell().panel.close()
    write_ended(runs_root, "20260101-000001-one", "finished", 0)
    found = ready(drive())
    found.until("1")
    found.panel.until_replaced("zh_CN")
    button = found.panel.window.findChild(QToolButton, "missedButton")
    found.panel.until(lambda: button.isVisible() and button.text() == "1", "the bell")
    assert len(cells(button.findChild(QListView, "missedList"))) == 1
    assert button.accessibleName().startswith("1 个运行")
