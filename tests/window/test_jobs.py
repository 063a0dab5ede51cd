"""Work on threads: its order, its results, its errors, and what becomes of it when its owner is gone."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, QThread
from pytestqt.qtbot import QtBot

from core.errors import RunError
from gui.base.jobs import Jobs
from gui.features.setup import script_form as expression_tester
from gui.features.setup.script_form import ExpressionTester
from tests.support.waiting import PATIENCE_S


class Case:
    """Jobs, what they reported, and a gate that their work may wait for."""

    def __init__(self) -> None:
        self.owner = QObject()
        self.jobs = Jobs(self.owner, "test")
        self.gate = threading.Event()
        self.reported: list[object] = []

    def behind_gate(self, result: object) -> Callable[[], object]:
        gate = self.gate

        def work() -> object:
            assert gate.wait(PATIENCE_S)
            return result

        return work

    def note(self, result: object) -> None:
        assert QThread.currentThread() is self.owner.thread()
        self.reported.append(result)


@pytest.fixture
def case(qtbot: QtBot) -> Iterator[Case]:
    made = Case()
    yield made
    made.gate.set()
    for thread in threading.enumerate():
        if thread.name == "test":
            thread.join()


@pytest.mark.parametrize(("how", "done"), [("add", [0, 1, 2, 3]), ("replace", [0, 3]), ("start", [0])])
def test_work_that_comes_meanwhile_is_done_in_order_or_the_newest_or_none(
    case: Case, qtbot: QtBot, how: str, done: list[int]
) -> None:
    begun = [getattr(case.jobs, how)(case.behind_gate(number), case.note, case.note) for number in range(4)]
    assert case.jobs.busy
    case.gate.set()
    qtbot.waitUntil(lambda: not case.jobs.busy)
    assert (case.reported, case.jobs.busy_s) == (done, 0.0)
    if how == "start":
        assert begun == [True, False, False, False]
        assert case.jobs.start(lambda: "later", case.note, case.note)
        qtbot.waitUntil(lambda: case.reported == [0, "later"])


@pytest.mark.parametrize(
    ("error", "is_logged"), [(RunError("Refused."), False), (ValueError("No."), False), (OSError("broken"), True)]
)
def test_error_is_reported_and_next_work_is_done(
    case: Case, qtbot: QtBot, caplog: pytest.LogCaptureFixture, error: Exception, is_logged: bool
) -> None:
    def fail() -> None:
        raise error

    with caplog.at_level(logging.ERROR):
        case.jobs.add(fail, lambda _: case.note("no error"), case.note)
        case.jobs.add(lambda: "next", case.note, case.note)
        qtbot.waitUntil(lambda: case.reported == [error, "next"])
    assert bool(caplog.records) == is_logged, "an error that is no sentence for the user has a traceback in the log"


def test_abandoned_work_reports_nothing_and_the_next_does_not_wait_for_it(case: Case, qtbot: QtBot) -> None:
    case.jobs.add(case.behind_gate("abandoned"), case.note, case.note)
    case.jobs.add(lambda: "next", case.note, case.note)
    case.jobs.abandon()
    qtbot.waitUntil(lambda: case.reported == ["next"])
    case.gate.set()
    case.jobs.add(lambda: "last", case.note, case.note)
    qtbot.waitUntil(lambda: case.reported == ["next", "last"])


def test_result_can_be_waited_for_and_start_further_work(case: Case, qtbot: QtBot) -> None:
    case.gate.set()
    case.jobs.start(case.behind_gate("result"), case.note, case.note)
    case.jobs.finish()
    assert case.reported == ["result"]
    case.jobs.finish()
    assert case.reported == ["result"]
    case.reported.clear()
    case.jobs.start(lambda: 1, lambda _: case.jobs.start(lambda: 2, case.note, case.note), case.note)
    qtbot.waitUntil(lambda: case.reported == [2])


def test_nothing_is_reported_once_the_owner_is_gone(case: Case, qtbot: QtBot) -> None:
    other = Case()
    case.jobs.add(case.behind_gate("result"), case.note, case.note)
    case.jobs.add(lambda: "next", case.note, case.note)
    case.owner.deleteLater()
    with qtbot.waitSignal(case.owner.destroyed):
        case.gate.set()
    other.jobs.add(lambda: "other", other.note, other.note)
    qtbot.waitUntil(lambda: other.reported == ["other"])
    assert case.reported == []


def test_nothing_is_begun_or_reported_after_the_close(case: Case, qtbot: QtBot) -> None:
    other = Case()
    case.jobs.add(case.behind_gate("result"), case.note, case.note)
    case.jobs.add(lambda: "next", case.note, case.note)
    case.jobs.close()
    case.gate.set()
    case.jobs.add(lambda: "later", case.note, case.note)
    assert not case.jobs.start(lambda: "later", case.note, case.note)
    other.jobs.add(lambda: "other", other.note, other.note)
    qtbot.waitUntil(lambda: other.reported == ["other"])
    assert (case.jobs.busy, case.reported) == (False, [])


def test_expression_that_is_not_typed_any_more_is_not_reported(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate, tester, told = threading.Event(), ExpressionTester(), []

    def tried(expression: str, _: Path) -> str:
        assert gate.wait(PATIENCE_S)
        return expression

    monkeypatch.setattr(expression_tester, "try_expression", tried)
    monkeypatch.setattr(expression_tester, "describe_result", lambda found: found)
    tester.tested.connect(told.append)
    tester.poll("first", tmp_path)
    tester.poll("second", tmp_path)
    gate.set()

    def is_told() -> bool:
        tester.poll("second", tmp_path)
        return bool(told)

    qtbot.waitUntil(is_told)
    assert told == ["second"]
