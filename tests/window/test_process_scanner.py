"""The census of who is on the devices: the window never waits for it, and it is of the run that is looked at."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from core.devices.device import Process, Sample, Survey
from core.memory_watch import gpu_processes
from core.runs.leftovers import OrphanedProcess
from core.system import process_info
from core.system.process_info import ProcessInfo
from core.system.processes import ProcessId
from gui.services import process_scanner
from gui.services.process_scanner import ProcessScan, ProcessScanner
from gui.services.run_session import RunSession

MINE = ProcessInfo(pid=7, created=1.0, name="python", user="anna", age_s=1.0)


class Described:
    """Stands in for what `/proc` tells of a process."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[threading.Thread] = set()
        self.age_s = 0.0
        self.trouble: OSError | None = None

    def __call__(self, pid: int) -> ProcessInfo:
        self.threads.add(threading.current_thread())
        self.gate.wait(30)
        if self.trouble is not None:
            raise self.trouble
        self.age_s += 1
        return replace(MINE, pid=pid, age_s=self.age_s)


@pytest.fixture
def described(monkeypatch):
    made = Described()
    monkeypatch.setattr(process_info, "describe", made)
    monkeypatch.setattr(process_scanner, "look_for", lambda root: [])
    monkeypatch.setattr(gpu_processes, "scan", lambda *_: gpu_processes.GpuProcessScan())
    yield made
    made.gate.set()


@pytest.fixture
def counted(qtbot, tmp_path, described):
    """A census of a GPU with one process, and how often it has changed."""
    listed = Sample(device_id="GPU-1", time=1, processes=(Process(pid=7, memory_used_bytes=5),))
    monitor = SimpleNamespace(survey=Survey(samples=(listed,)))
    made, changes = ProcessScanner(monitor, SimpleNamespace(root=tmp_path, summaries=[]), RunSession()), []
    made.changed.connect(lambda: changes.append(1))
    return made, changes


def poll_until(qtbot, made, condition, *, shown=False):
    def met():
        made.poll(shown=shown)
        assert condition()

    qtbot.waitUntil(met)


def test_the_windows_thread_waits_for_no_process(counted, described, qtbot, monkeypatch):
    made, _ = counted
    described.gate.clear()  # as one that hangs in the kernel, whose memory cannot be read
    made.poll(shown=True)
    made.poll(shown=True)
    assert made.holders == ()
    monkeypatch.setattr(process_scanner, "HANGS_S", 0.0)
    assert "hang" in made.trouble
    described.gate.set()
    poll_until(qtbot, made, lambda: [each.pid for each in made.holders] == [7])
    assert threading.main_thread() not in described.threads


def test_what_is_left_over_was_described_when_it_was_found(counted, described, qtbot, monkeypatch):
    made, _ = counted
    left = OrphanedProcess(
        process=ProcessId(pid=8, created=1.0), run_id="old", run_dir=None, name="python", command="python", age_s=1,
        user="anna", memory_bytes=5, why="Its run is over.",
    )  # fmt: skip
    monkeypatch.setattr(process_scanner, "look_for", lambda root: [left])
    monkeypatch.setattr(process_scanner, "_is_there", lambda holder: True)
    poll_until(qtbot, made, lambda: [each.leftover for each in made.people()] == [None, left], shown=True)
    assert threading.main_thread() not in described.threads


def test_that_processes_grow_older_is_no_change(counted, described, qtbot):
    made, changes = counted
    poll_until(qtbot, made, lambda: changes == [1])
    before = made.holders[0].age_s
    made.look_soon()
    poll_until(qtbot, made, lambda: made.holders[0].age_s != before)
    assert changes == [1]


def test_processes_of_a_run_that_is_not_looked_at_any_more_are_not_listed(counted, described):
    made, _ = counted
    made._session.run = SimpleNamespace(id="a")
    made._look = ProcessScan(run_id="a", of_run=(replace(MINE, pid=9, created=None),))
    assert [each.info.pid for each in made.people()] == [9]
    made._session.run = SimpleNamespace(id="b")
    assert made.people() == []


def test_another_run_is_looked_for_at_once(counted, described, qtbot):
    made, _ = counted
    poll_until(qtbot, made, lambda: made._looked_at > 0 and not made._scanning.busy, shown=True)
    made._session.attached.emit()
    made.poll(shown=True)
    assert made._scanning.busy
    poll_until(qtbot, made, lambda: not made._scanning.busy)


def test_a_look_that_fails_is_told(counted, described, qtbot, monkeypatch):
    def fails(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(gpu_processes, "scan", fails)
    made, _ = counted
    poll_until(qtbot, made, lambda: made.trouble is not None, shown=True)
    assert made.trouble == "The processes of this machine could not be looked through: Too many open files."
