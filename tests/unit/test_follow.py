"""Following a run: what Ctrl-C requests in each state, and how often a line is written."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest

from core.cli import runs as following
from core.cli.runs import LINE_EVERY_S, follow
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.runs.run import Run
from core.schema.event_kinds import RunProgress, UntickedDeviceUse
from core.schema.events import Event
from core.schema.spec import RunSpec
from tests.support.running import make_spec
from tests.support.written_runs import values, write_run


class Recipe:
    """What is asked of a run on a recipe."""

    def spec(self) -> RunSpec:
        return make_spec("digits_mlp")


class Interrupted(Recipe):
    """A run in a given state; Ctrl-C is pressed once, then the run is stopped."""

    def __init__(self, state: RunState) -> None:
        self.facts = RunFacts(state=state)
        self.asked: list[str] = []

    def catch_up(self) -> list[dict[str, object]]:
        return []

    def poll(self) -> list[dict[str, object]]:
        if not self.asked:
            signal.raise_signal(signal.SIGINT)
            return []
        self.facts = RunFacts(state=RunState.STOPPED)
        return []

    def request(self, what: str) -> None:
        self.asked.append(what)


@pytest.mark.parametrize(
    ("state", "asked", "printed"),
    [
        (RunState.RUNNING, "stop", "Stopping; Ctrl-C again forces it."),
        (RunState.STOPPING, "force", "Forcing the end of the workers."),
        (RunState.RELEASING, "force", "Not waiting any longer for the devices' memory."),
    ],
)
def test_ctrl_c_request_depends_on_the_run_state(state: RunState, asked: str, printed: str) -> None:
    run, out = Interrupted(state), io.StringIO()
    follow(run, out)  # type: ignore[arg-type]
    assert run.asked == [asked]
    assert printed in out.getvalue().splitlines()


class Training(Recipe):
    """A run that trains for `polls` polls; each loss is the number of the poll."""

    def __init__(self, polls: int) -> None:
        self.facts = RunFacts(state=RunState.RUNNING)
        self._polls, self._left = polls, polls

    def catch_up(self) -> list[dict[str, object]]:
        return []

    def poll(self) -> list[dict[str, object]]:
        self._left -= 1
        if not self._left:
            self.facts = RunFacts(state=RunState.FINISHED)
        return [{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [float(self._polls - self._left)]}}]


class Clock:
    """A clock that advances only in sleep()."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_piped_output_gets_one_line_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, out = Clock(), io.StringIO()
    monkeypatch.setattr(following, "time", clock)
    assert follow(Training(2400), out) == 2400.0  # type: ignore[arg-type]
    passed_s = clock.now - 1000.0
    assert len(out.getvalue().splitlines()) == -(-passed_s // LINE_EVERY_S)


def test_last_loss_is_returned_without_output() -> None:
    assert follow(Training(1), None) == 1.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unit", "line"),
    [("steps", "step 3/8"), ("epochs", "epoch 3/8"), ("in this epoch", "3/8 in this epoch"), ("", "3/8")],
)
def test_use_of_an_unticked_device_and_the_progress_of_a_script_are_shown(unit: str, line: str) -> None:
    out, run = io.StringIO(), Training(3)
    use = UntickedDeviceUse(device_id="GPU-1", pids=(7,), sentence="Process 7 of this run is on GPU 1.")
    progress = RunProgress(done=3.0, total=8.0, unit=unit)
    run.facts = RunFacts(state=RunState.RUNNING, unticked_device_uses=(use,), progress=progress)
    follow(run, out)  # type: ignore[arg-type]
    assert out.getvalue().splitlines().count(use.sentence) == 1
    assert f"running · {line} · loss 1" in out.getvalue().splitlines()


@pytest.mark.parametrize("stops", [True, False])
def test_ctrl_c_while_events_are_read_loses_none(
    runs_root: Path, monkeypatch: pytest.MonkeyPatch, *, stops: bool
) -> None:
    """Without the events that were read, a run that has ended would seem lost."""
    found = Run.attach(write_run(runs_root, "run", [values(1, 1, 2, loss=[2.0, 1.0])]))
    folds = []

    def interrupted(facts: RunFacts, events: list[Event]) -> RunFacts:
        if not folds:
            signal.raise_signal(signal.SIGINT)
        folds.append(events)
        return fold(facts, events)

    monkeypatch.setattr("core.runs.run.fold", interrupted)
    assert follow(found, None, stops=stops) == 1.0
    assert found.facts.state is RunState.FINISHED
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
