"""Following a run: what Ctrl-C requests in each state, and how often a line is written."""

import io
import signal
from types import SimpleNamespace

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


class Polled:
    """A run that is over after `polls` polls; each loss is the number of the poll. `act` is called in the first one."""

    def __init__(self, polls, state=RunState.RUNNING, act=lambda: None, **facts) -> None:
        self.facts = RunFacts(state=state, **facts)
        self.asked: list[str] = []
        self._polls, self._polled, self._act = polls, 0, act

    def spec(self) -> RunSpec:
        return make_spec("digits_mlp")

    def catch_up(self) -> list[Event]:
        return []

    def poll(self) -> list[Event]:
        self._polled += 1
        if self._polled == 1:
            self._act()
        if self._polled == self._polls:
            self.facts = RunFacts(state=RunState.FINISHED)
        return [{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [float(self._polled)]}}]

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
    run, out = Polled(2, state, lambda: signal.raise_signal(signal.SIGINT)), io.StringIO()
    follow(run, out)
    assert run.asked == [asked]
    assert printed in out.getvalue().splitlines()


def test_piped_output_gets_one_line_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, out = SimpleNamespace(now=1000.0), io.StringIO()
    clock.time = clock.monotonic = lambda: clock.now
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(following, "time", clock)
    assert follow(Polled(2400), out) == 2400.0
    passed_s = clock.now - 1000.0
    assert len(out.getvalue().splitlines()) == -(-passed_s // LINE_EVERY_S)


def test_last_loss_is_returned_without_output() -> None:
    assert follow(Polled(1), None) == 1.0


@pytest.mark.parametrize(
    ("unit", "line"),
    [("steps", "step 3/8"), ("epochs", "epoch 3/8"), ("in this epoch", "3/8 in this epoch"), ("", "3/8")],
)
def test_use_of_an_unticked_device_and_the_progress_of_a_script_are_shown(unit: str, line: str) -> None:
    use = UntickedDeviceUse(device_id="GPU-1", pids=(7,), sentence="Process 7 of this run is on GPU 1.")
    progress, out = RunProgress(done=3.0, total=8.0, unit=unit), io.StringIO()
    follow(Polled(3, unticked_device_uses=(use,), progress=progress), out)
    assert out.getvalue().splitlines().count(use.sentence) == 1
    assert f"running · {line} · loss 1" in out.getvalue().splitlines()
    assert f"running · {line} · loss 1" in out.getvalue().splitlines()


@pytest.mark.parametrize("stops", [True, False])
def test_ctrl_c_while_events_are_read_loses_none(runs_root, monkeypatch, *, stops) -> None:
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
