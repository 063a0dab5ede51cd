"""The page about processes, and the ending of those that may be ended: asked first, and never of somebody else's."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QTableWidget

from core.runs import leftovers
from core.runs.states import RunState
from core.system import process_info, processes
from core.system.process_info import ProcessInfo
from gui.panels.memory.leftovers_strip import LeftoversStrip
from gui.services import leftover_scanner
from gui.services.process_terminator import end_one
from gui.viewmodels.devices.process_rows import MEMORY, PID, KnownRuns, ProcessEntry, ordered, process_rows, why_not_end
from tests.support.acting import CHILD, STUBBORN_CHILD, ProcView, abandon, played
from tests.support.recorded import GB
from tests.support.running import start
from tests.support.waiting import wait_until
from tests.window.launching import WAITS

RUNS = KnownRuns(shown="this", names={"this": "digits", "old": "mnist"}, living=frozenset({"this"}))
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
NOBODY = 65534
NO_PID = 4194999
"""Above the kernel's limit (PID_MAX_LIMIT, 2^22): no process has it."""


@pytest.fixture
def view(tmp_path, monkeypatch):
    """Leftovers are looked for among the processes of this test alone: none of anybody else's is shown, or ended."""
    made = ProcView(tmp_path / "proc", f"TESTS_OF_TRAINYARD={tmp_path}")
    monkeypatch.setattr(leftover_scanner, "PROC", made.path)
    return made


def person(**known):
    usual = {"pid": 4711, "created": 1.0, "name": "python", "user": "anna", "state": "S", "ours": True}
    return ProcessEntry(info=ProcessInfo(**{**usual, **known}), devices=())


# -- the rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, ""),
        ({"ours": False}, "It belongs to anna; only that user can end it."),
        ({"name": None, "created": None}, "is unknown here"),
        ({"run_id": "this"}, "It belongs to the active run digits"),
        ({"run_id": "old"}, "may still be active"),
        ({"pid": os.getpid()}, "is part of Trainyard"),
        ({"command": "python -m core.supervisor /runs/x"}, "is part of Trainyard"),
        ({"state": "Z"}, "has already ended"),
    ],
)
def test_who_may_be_ended_from_here_and_why_not(known, words):
    found = why_not_end(person(**known), RUNS)
    assert words in found
    assert bool(words) == bool(found)


def test_what_a_run_that_is_over_left_behind_may_be_ended():
    process = processes.ProcessId(pid=4711, created=1.0)
    left = leftovers.OrphanedProcess(
        process=process, run_id="old", run_dir=None, name="python", command="python", age_s=1, user="anna",
        memory_bytes=None, why="Its run is over.",
    )  # fmt: skip
    assert why_not_end(replace(person(run_id="old"), leftover=left), RUNS) == ""


def test_rows_read_well_and_what_is_not_known_comes_last():
    people = [
        person(pid=1, memory_used_bytes=None, age_s=None),
        person(pid=2, memory_used_bytes=9 * GB, age_s=75, run_id="this"),
        person(pid=3, memory_used_bytes=340 * 2**20, age_s=5),
        ProcessEntry(info=ProcessInfo(pid=4, memory_used_bytes=GB), devices=("GPU-1",)),
    ]
    rows = process_rows(people, {"GPU-1": "GPU 0"}, RUNS)
    assert rows[1].texts == ("2", "anna", "python", "–", "1:15", "9.0 GB", "–", "this run")
    assert rows[3].texts == ("4", "–", "–", "in a container, or already ended", "–", "1.0 GB", "GPU 0", "")
    assert [row.of_this_run for row in rows] == [False, True, False, False]
    assert [row.info.pid for row in ordered(rows, MEMORY, descending=True)] == [2, 4, 3, 1]
    assert [row.info.pid for row in ordered(rows, MEMORY, descending=False)] == [3, 4, 2, 1]
    assert [row.info.pid for row in ordered(rows, PID, descending=False)] == [1, 2, 3, 4]


# -- the table -----------------------------------------------------------------------------------


def table(panel) -> QTableWidget:
    return panel.window.findChild(QTableWidget, "processTable")


def pids(panel) -> list[int]:
    return [int(table(panel).item(row, PID).text()) for row in range(table(panel).rowCount())]


def choose(panel, pid: int) -> QPushButton:
    """Choose the row of a process; returns the button that ends it."""
    panel.until(lambda: pid in pids(panel), f"process {pid} in the table")
    table(panel).selectRow(pids(panel).index(pid))
    return panel.window.findChild(QPushButton, "endProcess")


def on_gpu(nvml, *held: str) -> None:
    nvml.write(gpus=1, gpu0={"memory_used": 12 * GB, "compute": ",".join(held)})


def test_the_processes_of_a_run_on_a_cpu_device_are_listed_marked_and_not_to_be_ended(drive, runs_root, tmp_path, view):
    followed = start(played(tmp_path / "actor"), runs_root).until(RunState.RUNNING)
    panel = drive()
    panel.until_state("Running")
    panel.turn_to("Processes")
    worker = followed.run.facts.workers[0].process.pid
    button = choose(panel, worker)
    row = pids(panel).index(worker)
    texts = [table(panel).item(row, column).text() for column in range(table(panel).columnCount())]
    assert texts[2] == "python" or "python" in texts[3]
    assert texts[6] == "CPU 0"
    assert texts[7] == "this run"
    assert "B" in texts[5]
    assert table(panel).item(row, 0).font().bold()
    assert not button.isEnabled()
    assert "stop that run instead" in panel.window.findChild(QLabel, "processWords").text()
    panel.qtbot.keyClick(table(panel), Qt.Key.Key_Delete)
    assert panel.question() is None
    panel.stop()
    panel.until_state("Stopped")
    panel.until(lambda: worker not in pids(panel), "the worker to leave the table")


def test_without_gpus_and_runs_there_are_words(drive, view):
    panel = drive()
    panel.turn_to("Processes")
    words = panel.window.findChild(QLabel, "noProcesses")
    panel.until(lambda: words.isVisible() and words.text().startswith("No GPU answers here"), "the words")
    panel.window.resize(1100, 700)
    panel.until(lambda: words.height() >= words.heightForWidth(words.width()), "all of them to be seen")
    assert words.heightForWidth(words.width()) > words.heightForWidth(2000), "it takes more than a line"


def test_a_process_of_ones_own_is_ended_after_a_question_that_names_it(drive, nvml, launch, view):
    target, bystander = launch(), launch()
    on_gpu(nvml, f"{target.pid}:{6 * GB}", f"{bystander.pid}:{2 * GB}")
    panel = drive()
    panel.turn_to("Processes")
    button = choose(panel, target.pid)
    assert button.isEnabled()
    panel.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    panel.until(lambda: panel.question() is not None, "the question")
    asked = panel.question().text
    assert f"(pid {target.pid})" in asked
    assert WAITS in asked
    assert "6.0 GB" in asked
    panel.answer("noButton")
    panel.until(lambda: panel.question() is None)
    assert target.poll() is None
    panel.qtbot.keyClick(table(panel), Qt.Key.Key_Delete)  # the same by the keyboard
    panel.answer("yesButton")
    panel.until(lambda: target.poll() is not None, "its end")
    assert target.returncode == -signal.SIGTERM
    panel.until(lambda: f"(pid {target.pid})" in panel.message("messageStrip"), "what came of it")
    assert bystander.poll() is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process as another user")
def test_a_process_of_another_user_is_named_and_never_offered_to_be_ended(drive, nvml, launch, view, monkeypatch):
    theirs = launch(command=["sh", "-c", "echo; exec sleep 3600"], user=NOBODY)
    monkeypatch.setattr(os, "getuid", lambda: 1000)  # as the user of the window: root could end it
    on_gpu(nvml, f"{theirs.pid}:{6 * GB}")
    panel = drive()
    panel.turn_to("Processes")
    button = choose(panel, theirs.pid)
    assert not button.isEnabled()
    user = table(panel).item(pids(panel).index(theirs.pid), 1).text()
    assert f"belongs to {user}" in panel.window.findChild(QLabel, "processWords").text()
    panel.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    panel.qtbot.keyClick(table(panel), Qt.Key.Key_Delete)
    assert panel.question() is None
    assert theirs.poll() is None


def test_a_pid_that_means_nothing_here_is_shown_all_the_same(drive, nvml, view):
    on_gpu(nvml, f"{NO_PID}:{6 * GB}")
    panel = drive()
    panel.turn_to("Processes")
    button = choose(panel, NO_PID)
    assert not button.isEnabled()
    assert "in a container" in panel.window.findChild(QLabel, "processWords").text()
    panel.until(lambda: f"used by pid {NO_PID}" in panel.table.item(0, 3).text(), "it in the row of its device")


def test_a_click_on_a_heading_sorts_and_the_choice_stays(drive, nvml, launch, view):
    one, other = sorted((launch(), launch()), key=lambda process: process.pid)
    on_gpu(nvml, f"{one.pid}:{2 * GB}", f"{other.pid}:{6 * GB}")
    panel = drive()
    panel.turn_to("Processes")
    choose(panel, one.pid)
    assert pids(panel) == [other.pid, one.pid]  # the largest first
    header = table(panel).horizontalHeader()
    header.sectionClicked.emit(PID)
    assert pids(panel) == [one.pid, other.pid]
    assert table(panel).rows[table(panel).currentRow()].info.pid == one.pid
    header.sectionClicked.emit(PID)
    assert pids(panel) == [other.pid, one.pid]


def test_nothing_is_looked_through_while_nobody_looks(drive, view):
    panel = drive()
    census = panel.window.services.process_scanner
    panel.until(lambda: panel.window.opened)
    assert census._looked_at == float("-inf")
    panel.turn_to("Memory")
    panel.until(lambda: census._looked_at > 0, "a look")
    panel.turn_to("Log")
    panel.until(lambda: not census._scanning.busy, "the look to be over")
    for _ in range(20):
        panel.window.poll()
        assert not census._scanning.busy


# -- ending --------------------------------------------------------------------------------------


def test_one_that_does_not_listen_is_killed(launch):
    deaf = launch(DEAF)
    sentence, tone = end_one(process_info.describe(deaf.pid), grace_s=0.2)
    assert (f"(pid {deaf.pid}) was ended (SIGKILL)." in sentence, tone) == (True, "good")


def test_another_process_with_its_pid_is_never_signalled(launch):
    other = launch()
    listed = replace(process_info.describe(other.pid), created=12.5)
    sentence, _ = end_one(listed)
    assert sentence.endswith("has ended.")
    assert other.poll() is None


def test_one_that_has_come_to_belong_to_a_run_is_left_alone(launch):
    other = launch(env={**os.environ, "TRAINYARD_RUN": "a-run"})
    listed = replace(process_info.describe(other.pid), run_id=None)
    sentence, tone = end_one(listed)
    assert (tone, "was left alone" in sentence) == ("bad", True)
    assert other.poll() is None


# -- leftovers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("child", [CHILD, STUBBORN_CHILD])
def test_leftovers_of_a_run_that_is_over_are_shown_at_the_start_and_ended(drive, runs_root, tmp_path, view, child):
    followed = start(played(tmp_path, before=child), runs_root).until_trained()
    worker = psutil.Process(followed.run.facts.workers[0].process.pid)
    (left,) = worker.children()
    abandon(followed)
    wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, what="the worker's end")
    view.refresh()
    panel = drive()
    strip = panel.window.findChild(LeftoversStrip, "leftoversStrip")
    panel.until(strip.isVisible, "the strip")
    assert strip.text.startswith("1 process of the ended run digits_mlp is still running: ")
    assert f"(pid {left.pid})" in strip.text
    panel.qtbot.mouseClick(strip.show_button, Qt.MouseButton.LeftButton)
    assert panel.window.panels.details.processes.isVisible()
    assert choose(panel, left.pid).isEnabled()
    assert table(panel).item(pids(panel).index(left.pid), 7).text().endswith("left over")
    panel.qtbot.mouseClick(strip.end_button, Qt.MouseButton.LeftButton)
    panel.until(lambda: panel.question() is not None, "the question")
    assert f"(pid {left.pid})" in panel.question().text
    assert left.cmdline()[0] in panel.question().text
    panel.answer("yesButton")
    panel.until(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE, "its end")
    panel.until(lambda: not strip.isVisible(), "the strip to go")
    panel.until(lambda: "ended" in panel.message("messageStrip"), "what came of it")


def test_a_strip_about_leftovers_goes_when_they_do(drive, runs_root, tmp_path, view):
    followed = start(played(tmp_path, before=CHILD), runs_root).until_trained()
    (left,) = psutil.Process(followed.run.facts.workers[0].process.pid).children()
    abandon(followed)
    view.refresh()
    panel = drive()
    strip = panel.window.findChild(LeftoversStrip, "leftoversStrip")
    panel.until(strip.isVisible, "the strip")
    left.kill()
    panel.until(lambda: not strip.isVisible(), "the strip to go")


def test_a_machine_without_leftovers_shows_none(drive, view):
    view.refresh()
    panel = drive()
    panel.until(lambda: panel.window.opened and not panel.window.services.orphan_scanner._task.busy, "the look")
    assert not panel.window.findChild(LeftoversStrip, "leftoversStrip").isVisible()
