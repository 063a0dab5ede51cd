"""Ending chosen processes: one request after another, and a failed request reports why."""

from __future__ import annotations

import threading

import pytest

from core.schema.event_kinds import ProcessInfo
from gui.features.memory import scanner as process_terminator
from gui.features.memory.processes import ProcessEntry
from gui.features.memory.scanner import ProcessTerminator
from tests.support.waiting import PATIENCE_S


def process_entry(pid: int) -> ProcessEntry:
    return ProcessEntry(info=ProcessInfo(pid=pid, created=1.0, name="python", ours=True), devices=())


@pytest.fixture
def terminator_and_results(qtbot):
    """A process terminator and the results that it has emitted."""
    terminator, results = ProcessTerminator(), []
    terminator.ended.connect(lambda *words: results.append(words))
    return terminator, results


def test_requests_run_one_after_another_and_none_is_lost(terminator_and_results, qtbot, monkeypatch):
    terminator, results = terminator_and_results
    gate = threading.Event()

    def end_one(process):
        gate.wait(PATIENCE_S)
        return f"{process.pid} has ended.", "good"

    monkeypatch.setattr(process_terminator, "end_one", end_one)
    monkeypatch.setattr(
        process_terminator, "end_leftovers", lambda leftovers: (f"{len(leftovers)} left over ended.", "good")
    )
    terminator.end(process_entry(1))
    terminator.end(process_entry(2))
    terminator.end_leftovers([])
    assert results == []
    gate.set()
    qtbot.waitUntil(lambda: len(results) == 3)
    assert results == [("1 has ended.", "good"), ("2 has ended.", "good"), ("0 left over ended.", "good")]


def test_failed_request_reports_reason(terminator_and_results, qtbot, monkeypatch):
    terminator, results = terminator_and_results

    def refused(_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(process_terminator, "end_one", refused)
    monkeypatch.setattr(process_terminator, "end_leftovers", refused)
    terminator.end(process_entry(4711))
    terminator.end_leftovers([])
    qtbot.waitUntil(lambda: len(results) == 2)
    assert results == [
        ("python (pid 4711) could not be ended: Operation not permitted.", "bad"),
        ("The leftover processes could not be ended: Operation not permitted.", "bad"),
    ]
