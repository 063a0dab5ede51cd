"""Ending what somebody has pointed at: one request after the other, and one that fails says so."""

from __future__ import annotations

import threading

import pytest

from core.system.process_info import ProcessInfo
from gui.services import process_terminator
from gui.services.process_terminator import ProcessTerminator
from gui.viewmodels.devices.process_rows import ProcessEntry


def person(pid: int) -> ProcessEntry:
    return ProcessEntry(info=ProcessInfo(pid=pid, created=1.0, name="python", ours=True), devices=())


@pytest.fixture
def asked(qtbot):
    """An ender, and the sentences that it has said."""
    made, said = ProcessTerminator(), []
    made.ended.connect(lambda *words: said.append(words))
    return made, said


def until_said(qtbot, made, said, count):
    def met():
        made.poll()
        assert len(said) == count

    qtbot.waitUntil(met)


def test_a_second_request_waits_for_the_first_and_is_not_lost(asked, qtbot, monkeypatch):
    made, said = asked
    gate = threading.Event()

    def end_one(holder):
        gate.wait(30)
        return f"{holder.pid} has ended.", "good"

    monkeypatch.setattr(process_terminator, "end_one", end_one)
    monkeypatch.setattr(process_terminator, "end_leftovers", lambda those: (f"{len(those)} left over ended.", "good"))
    made.end(person(1))
    made.end(person(2))
    made.end_leftovers([])
    made.poll()
    assert said == []
    gate.set()
    until_said(qtbot, made, said, 3)
    assert said == [("1 has ended.", "good"), ("2 has ended.", "good"), ("0 left over ended.", "good")]


def test_a_request_that_cannot_be_done_says_why(asked, qtbot, monkeypatch):
    made, said = asked

    def refused(_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(process_terminator, "end_one", refused)
    monkeypatch.setattr(process_terminator, "end_leftovers", refused)
    made.end(person(4711))
    made.end_leftovers([])
    until_said(qtbot, made, said, 2)
    assert said == [
        ("python (pid 4711) could not be ended: Operation not permitted.", "bad"),
        ("What was left over could not be ended: Operation not permitted.", "bad"),
    ]
