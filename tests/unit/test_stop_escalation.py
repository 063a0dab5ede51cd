"""Stop escalation: each step after its timeout, none twice."""

import signal

import pytest

from core.schema.settings import StopTimeouts, escalation_steps
from core.supervisor import workers
from core.supervisor.workers import StopEscalation


class Climb:
    """A stop escalation with a fake clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(workers.time, "monotonic", lambda: self.now)
        self.sent: list[signal.Signals] = []
        self.recorded: list[tuple[str, float | None]] = []
        graces = StopTimeouts(ask_s=10, interrupt_s=5, terminate_s=2)
        self.escalation = StopEscalation(
            escalation_steps(graces), send=self.sent.append, record=lambda *step: self.recorded.append(step)
        )

    def at(self, now: float, measured_at: float = 0.0) -> list[signal.Signals]:
        self.now = now
        self.escalation.tick(measured_at)
        return self.sent


@pytest.fixture
def climb(monkeypatch: pytest.MonkeyPatch) -> Climb:
    return Climb(monkeypatch)


def test_each_signal_follows_after_the_previous_timeout(climb: Climb) -> None:
    assert climb.at(1000) == [], "nothing has begun"
    assert climb.recorded == []
    climb.now = 100
    climb.escalation.begin()
    climb.escalation.begin()  # a second call has no effect
    assert climb.at(109.9) == []
    assert climb.at(110) == [signal.SIGINT]
    assert climb.at(114.9) == [signal.SIGINT]
    assert climb.at(115) == [signal.SIGINT, signal.SIGTERM]
    assert climb.at(117) == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
    assert climb.at(10_000) == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
    assert climb.recorded == [("asked", 10), ("SIGINT", 5), ("SIGTERM", 2), ("SIGKILL", None)]


def test_escalation_can_begin_with_sigterm_and_force_sends_sigkill_once(monkeypatch: pytest.MonkeyPatch) -> None:
    climb = Climb(monkeypatch)
    climb.escalation.begin("SIGTERM")
    assert climb.sent == [signal.SIGTERM]
    assert climb.at(102) == [signal.SIGTERM, signal.SIGKILL]
    climb = Climb(monkeypatch)
    climb.escalation.begin()
    climb.escalation.force()
    climb.escalation.force()
    assert climb.at(10_000) == [signal.SIGKILL]
    assert climb.recorded == [("asked", 10), ("SIGKILL", None)]


def test_sigint_is_repeated_once_to_workers_that_train_on(climb: Climb) -> None:
    climb.escalation.begin("SIGINT")
    assert climb.at(101.6, 101.5) == [signal.SIGINT]
    assert climb.at(102, 100.1) == [signal.SIGINT], "it may be saving since the first"
    assert climb.at(103, 102.9) == [signal.SIGINT] * 2
    assert climb.at(104.9, 104.8) == [signal.SIGINT] * 2
    assert climb.at(105, 104.8) == [signal.SIGINT, signal.SIGINT, signal.SIGTERM]
    assert climb.at(106, 105.9)[3:] == [], "only an interrupt is repeated"
    assert climb.recorded == [("SIGINT", 5), ("SIGINT", 2), ("SIGTERM", 2)]
