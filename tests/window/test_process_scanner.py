"""Processes are listed without blocking the window, those of the selected run only, and ended one after the other."""

import os
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from core.devices.device import Process, Sample, Survey
from core.history.removal import OrphanedProcess
from core.memory_watch import gpu_processes
from core.schema.event_kinds import ProcessInfo
from core.system import processes, procfs
from core.system.processes import ProcessId
from gui.features.memory import scanner as process_scanner
from gui.features.memory.processes import ProcessEntry
from gui.features.memory.scanner import ProcessScan, ProcessScanner, ProcessTerminator, _usage
from gui.runs.session import RunSession
from tests.support.waiting import PATIENCE_S

MINE = ProcessInfo(pid=7, created=1.0, name="python", user="anna", age_s=1.0)


class FakeDescribe:
    """Stands in for `processes.describe`, which reads /proc."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[threading.Thread] = set()
        self.age_s = 0.0

    def __call__(self, pid: int) -> ProcessInfo:
        self.threads.add(threading.current_thread())
        self.gate.wait(PATIENCE_S)
        self.age_s += 1
        return replace(MINE, pid=pid, age_s=self.age_s)


@pytest.fixture
def fake_describe(monkeypatch):
    fake = FakeDescribe()
    monkeypatch.setattr(processes, "describe", fake)
    monkeypatch.setattr(process_scanner, "find_orphans", lambda root: [])
    monkeypatch.setattr(gpu_processes, "scan", lambda *_: gpu_processes.GpuProcessScan())
    yield fake
    fake.gate.set()


@pytest.fixture
def scanner_and_changes(qtbot, tmp_path, fake_describe):
    """A scanner of a GPU with one process, and a list with an entry per change."""
    listed = Sample(device_id="GPU-1", time=1, processes=(Process(pid=7, memory_used_bytes=5),))
    monitor = SimpleNamespace(survey=Survey(samples=(listed,)))
    scanner, changes = ProcessScanner(monitor, SimpleNamespace(root=tmp_path, summaries=[]), RunSession()), []
    scanner.changed.connect(lambda: changes.append(1))
    return scanner, changes


def poll_until(qtbot, scanner, condition, *, shown=False):
    def check():
        scanner.poll(shown=shown)
        assert condition()

    qtbot.waitUntil(check)


def test_window_thread_never_waits_for_processes_and_a_failed_scan_is_told(
    scanner_and_changes, fake_describe, qtbot, monkeypatch
):
    scanner, _ = scanner_and_changes
    fake_describe.gate.clear()  # like a process stuck in the kernel, whose memory cannot be read
    scanner.poll(shown=True)
    scanner.poll(shown=True)
    assert scanner.device_processes == ()
    with monkeypatch.context() as patch:
        patch.setattr(process_scanner, "HANGS_S", 0.0)
        assert "hang" in scanner.problem
    fake_describe.gate.set()
    poll_until(qtbot, scanner, lambda: [each.pid for each in scanner.device_processes] == [7])
    orphan = OrphanedProcess(
        process=ProcessId(pid=8, created=1.0), run_id="old", run_dir=None, name="python", command="python", age_s=1,
        user="anna", memory_bytes=5, why="Its run is over.",
    )
    monkeypatch.setattr(process_scanner, "find_orphans", lambda root: [orphan])
    monkeypatch.setattr(process_scanner, "_is_there", lambda holder: True)
    poll_until(qtbot, scanner, lambda: [each.leftover for each in scanner.entries()] == [None, orphan], shown=True)
    assert threading.main_thread() not in fake_describe.threads

    def fails(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(gpu_processes, "scan", fails)
    poll_until(qtbot, scanner, lambda: scanner.problem is not None, shown=True)
    told = "Processes could not be listed: Too many open files. The scan is repeated every few seconds."
    assert scanner.problem == told


def test_growing_age_is_no_change_and_another_run_is_scanned_at_once(scanner_and_changes, fake_describe, qtbot):
    scanner, changes = scanner_and_changes
    poll_until(qtbot, scanner, lambda: changes == [1])
    before = scanner.device_processes[0].age_s
    scanner.scan_soon()
    poll_until(qtbot, scanner, lambda: scanner.device_processes[0].age_s != before)
    assert changes == [1]
    poll_until(qtbot, scanner, lambda: scanner._scanned_at > 0 and not scanner._scanning.busy, shown=True)
    scanner._session.attached.emit()
    scanner.poll(shown=True)
    assert scanner._scanning.busy
    poll_until(qtbot, scanner, lambda: not scanner._scanning.busy)
    scanner._session.run = SimpleNamespace(id="a")
    scanner._latest_scan = ProcessScan(run_id="a", of_run=(replace(MINE, pid=9, created=None),))
    assert [each.info.pid for each in scanner.entries()] == [9]
    scanner._session.run = SimpleNamespace(id="b")
    assert scanner.entries() == []


def test_share_of_a_core_is_counted_between_two_readings_of_the_same_process() -> None:
    pid = os.getpid()
    (first,) = _usage([pid, 2**22 + 1], {}).values()
    assert first.resident_bytes > 2**20
    assert first.cpu_percent is None, "nothing to compare with"
    before = first._replace(cpu_ticks=first.cpu_ticks - 2 * procfs.TICKS_PER_S, at=first.at - 1.0)
    assert 150 < _usage([pid], {pid: before})[pid].cpu_percent <= 220
    other = before._replace(started_ticks=before.started_ticks - 1)
    assert _usage([pid], {pid: other})[pid].cpu_percent is None, "another process had its pid"


# -- ending them ----------------------------------------------------------------------------------


def process_entry(pid: int) -> ProcessEntry:
    return ProcessEntry(info=ProcessInfo(pid=pid, created=1.0, name="python", ours=True), devices=())


@pytest.fixture
def terminator_and_results(qtbot):
    """A process terminator and the results that it has emitted."""
    terminator, results = ProcessTerminator(), []
    terminator.ended.connect(lambda *words: results.append(words))
    return terminator, results


def test_requests_are_done_in_order_and_failed_ones_have_reasons(terminator_and_results, qtbot, monkeypatch):
    terminator, results = terminator_and_results
    gate = threading.Event()

    def end_one(process):
        gate.wait(PATIENCE_S)
        return f"{process.pid} has ended.", "good"

    monkeypatch.setattr(process_scanner, "end_one", end_one)
    monkeypatch.setattr(
        process_scanner, "end_leftovers", lambda leftovers: (f"{len(leftovers)} left over ended.", "good")
    )
    terminator.end(process_entry(1))
    terminator.end(process_entry(2))
    terminator.end_leftovers([])
    assert results == []
    gate.set()
    qtbot.waitUntil(lambda: len(results) == 3)
    assert results == [("1 has ended.", "good"), ("2 has ended.", "good"), ("0 left over ended.", "good")]

    def refused(_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(process_scanner, "end_one", refused)
    monkeypatch.setattr(process_scanner, "end_leftovers", refused)
    terminator.end(process_entry(4711))
    terminator.end_leftovers([])
    qtbot.waitUntil(lambda: len(results) == 5)
    assert results[3:] == [
        ("python (pid 4711) could not be ended: Operation not permitted.", "bad"),
        ("The leftover processes could not be ended: Operation not permitted.", "bad"),
    ]
