"""Where the time of a step goes: the findings on measured steps, and which steps are measured."""

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from core.diagnosis.evidence import DISTURBED
from core.diagnosis.step_time import LEAST, PARTS, StepAccount, diagnose
from core.language import tr
from core.runs.directory import new_directory
from core.runs.facts import RunFacts, RunState
from core.schema.event_kinds import Checkpoint, Rewind, Slowed, StepTime
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.schema.spec import write_spec
from core.series.run_series import RunSeries
from core.worker.context import Context
from core.worker.training import step_times
from core.worker.training.metrics_reporter import MetricsReporter
from tests.support.one_rank import ALONE, Ranks
from tests.support.running import make_spec

USUAL = {"data": 0.002, "copy": 0.001, "forward": 0.03, "backward": 0.05, "optimizer": 0.01}
EXCHANGE = 0.003


def steps_of(
    ranks: int = 2, *, late: dict[tuple[int, str], float] | None = None, missing: tuple[str, ...] = (), count: int = 20,
    exchange: float = EXCHANGE, reports: bool = False, often: int = 5, **changed: float,
) -> list[dict[int, StepTime]]:
    """Return what ranks measure that wait for each other after their backward passes.

    `late`: additional seconds by rank and part, like `exchange` in `often` of five steps. `changed`: other seconds of
    all ranks. `reports`: whether they also wait for each other between two steps.
    """
    begins, found = [100.0] * ranks, []
    for step in range(count):
        more = (late or {}) if step % 5 < often else {}
        usual = (USUAL | changed).items()
        own = [{part: s + more.get((rank, part), 0.0) for part, s in usual} for rank in range(ranks)]
        arrived = [begins[rank] + sum(own[rank].values()) - own[rank]["optimizer"] for rank in range(ranks)]
        over = max(arrived) + (exchange if step % 5 < often else EXCHANGE)
        ends = [over + each["optimizer"] for each in own]
        found.append({
            rank: StepTime(rank=rank, step=step + 1, seconds=ends[rank] - begins[rank], **{
                name: value for name, value in (
                    *own[rank].items(), ("wait", over - arrived[rank]), ("arrived", arrived[rank]),
                ) if name not in missing and (ranks > 1 or name in USUAL)
            })
            for rank in range(ranks)
        })
        begins = [max(ends)] * ranks if reports else ends
    return found


FSDP = ("forward", "backward", "wait", "arrived")
CASES: dict[str, tuple[dict[str, Any], tuple[str | None, int | None, str | None]]] = {
    "healthy": ({}, ("compute", None, "backward")),
    "healthy, alone": ({"ranks": 1}, ("compute", None, "backward")),
    "healthy, of five": ({"ranks": 5}, ("compute", None, "backward")),
    **{f"{part} of rank 1": ({"late": {(1, part): 0.03}}, ("straggler", 1, part)) for part in USUAL},
    **{f"{part} of rank 0 of 4": ({"ranks": 4, "late": {(0, part): 0.03}}, ("straggler", 0, part)) for part in USUAL},
    "optimizer, while all wait between steps": (
        {"late": {(0, "optimizer"): 0.03}, "reports": True}, ("straggler", 0, "optimizer"),
    ),
    "two parts": ({"late": {(1, "forward"): 0.02, (1, "backward"): 0.02}}, ("straggler", 1, None)),
    "late now and then": ({"late": {(1, "forward"): 0.05}, "often": 2}, ("balanced", None, None)),
    "late more often than not": ({"late": {(1, "forward"): 0.05}, "often": 3}, ("balanced", None, None)),
    "a little late": ({"late": {(1, "forward"): 0.006}}, ("compute", None, "backward")),
    "all wait for data": ({"data": 0.05}, ("input", None, None)),
    "alone, waits for data": ({"ranks": 1, "data": 0.05}, ("input", None, None)),
    "copies": ({"copy": 0.05}, ("copy", None, None)),
    "exchange": ({"exchange": 0.05}, ("communication", None, None)),
    "exchange, at times": ({"exchange": 0.05, "often": 3}, ("balanced", None, None)),
    "waits for data at times": ({"ranks": 1, "late": {(0, "data"): 0.1}, "often": 2}, ("input", None, None)),
    "a hiccup": ({"ranks": 1, "late": {(0, "data"): 9.0}, "often": 1, "count": 5}, ("balanced", None, None)),
    "passes not told, healthy": ({"missing": FSDP}, (None, None, None)),
    "passes not told, data of rank 1": ({"missing": FSDP, "late": {(1, "data"): 0.03}}, ("straggler", 1, "data")),
    "optimizer not told": (
        {"missing": ("wait", "optimizer"), "late": {(1, "optimizer"): 0.03}}, ("straggler", 1, "optimizer"),
    ),
    "nothing is large": ({"data": 0.007, "exchange": 0.009, "loop": 0.02}, ("balanced", None, None)),
    "nothing is large, copies not known": (
        {"data": 0.007, "exchange": 0.009, "loop": 0.02, "missing": ("copy",)}, (None, None, None),
    ),
    "few steps": ({"count": LEAST - 1, "data": 0.05}, (None, None, None)),
}


@pytest.mark.parametrize("case", CASES)
def test_verdict(case: str) -> None:
    settings, expected = CASES[case]
    loop_s = settings.pop("loop", 0.0) if (settings := dict(settings)) else 0.0
    steps = steps_of(**settings)
    if loop_s:
        for step in steps:
            for rank, each in step.items():
                step[rank] = StepTime(**{**vars(each), "seconds": each.seconds + loop_s})
    found = diagnose(steps)
    document = found.document()
    assert (document["verdict"], document["rank"], document["phase"]) == expected, found.sentence
    is_certain = not {"wait", "optimizer"} & set(settings.get("missing", ()))
    assert all(each.probable != is_certain for each in found.findings if each.kind == "straggler")


def test_what_is_missing_is_named_and_machines_without_a_common_clock_are_compared_by_their_waits() -> None:
    found = diagnose(steps_of(missing=FSDP))
    assert found.missing == {"communication": "wait", "straggler": "wait", "compute": "passes"}
    assert "Missing: how long ranks wait for each other, how long each pass takes." in found.sentence
    assert found.parts["forward"] is None
    assert found.parts["data"] == pytest.approx(USUAL["data"])
    late = steps_of(late={(1, "backward"): 0.03})
    for number, step in enumerate(late):
        step[1] = StepTime(**{**vars(step[1]), "arrived": 7.0 * number})  # by the clock of another machine
    found = diagnose(late, has_one_clock=False)
    assert (found.verdict, found.findings[0].rank, found.findings[0].phase) == ("straggler", 1, "backward")
    assert found.findings[0].words == "Rank 1 is 30 ms late in the backward pass; the others wait 24 % of each step."
    assert found.findings[0].evidence["late"] == pytest.approx(0.03)


def test_what_happens_between_steps_is_found_in_events_and_facts() -> None:
    account = StepAccount()
    account.fold([each.event() for step in steps_of(ranks=1) for each in step.values()])
    account.fold([Checkpoint(step=9, name="step-9", seconds=20.0).event()])
    account.fold([Slowed(device_id="GPU-1", sentence="", seconds=30.0).event()])
    disturbed = tr(DISTURBED, marks="other programs used GPU 0 for 40 % of the time")
    facts = RunFacts(history=((0.0, RunState.RUNNING), (100.0, RunState.RELEASING)), latest=400.0, notices=(disturbed,))
    found = account.diagnosis(facts)
    assert [(each.kind, each.share) for each in found.findings] == [
        ("throttled", 0.3), ("checkpoint", 0.2), ("other_jobs", None),
    ]
    assert found.findings[2].words == disturbed
    assert StepAccount().diagnosis(RunFacts()).sentence == "Missing: enough measured steps."


def test_steps_before_a_resume_say_nothing_about_those_after_it() -> None:
    series = RunSeries()
    series.fold([each.event() for step in steps_of(exchange=0.5) for each in step.values()])
    assert series.step_times.diagnosis(RunFacts()).verdict == "communication"
    series.fold([Rewind(step=3).event()])
    assert series.step_times.diagnosis(RunFacts()).verdict is None
    series.fold([each.event() for step in steps_of(ranks=1) for each in step.values()])
    assert series.step_times.diagnosis(RunFacts()).verdict == "compute"


def test_of_a_script_a_busy_gpu_computes_probably() -> None:
    for count, percent, expected in ((1, 95.0, "compute"), (1, 60.0, None), (2, 95.0, None), (1, None, None)):
        facts = RunFacts(devices={f"GPU-{number}": {"device_kind": "nvidia"} for number in range(count)})
        found = StepAccount().diagnosis(facts, [percent] * count)
        assert found.verdict == expected
        assert all(each.probable for each in found.findings)


# -- which steps are measured --------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock of the training, which stands still but for what a test adds to `now`."""
    found = SimpleNamespace(now=1000.0)
    found.monotonic = found.time = lambda: found.now
    for module in ("context", "training.step_times", "training.metrics_reporter"):
        monkeypatch.setattr(f"core.worker.{module}.time", found)
    return found


class Follower(Ranks):
    """Rank 1, which gets what rank 0 has decided."""

    def __init__(self, decisions: Iterator[list[float]]) -> None:
        super().__init__()
        self._decisions = decisions

    def reduce(self, losses: list[float], shares: list[float], numbers: list[float]) -> list[float]:
        return [*losses, *next(self._decisions)]


class Leader(Ranks):
    def __init__(self) -> None:
        super().__init__()
        self.decisions: list[list[float]] = []

    def reduce(self, losses: list[float], shares: list[float], numbers: list[float]) -> list[float]:
        self.decisions.append(numbers)
        return super().reduce(losses, shares, numbers)


def train(reporter: MetricsReporter, clock: SimpleNamespace, steps: int, step_s: float, measured_s: float = 0) -> None:
    """Make steps that only count their forward pass, each in this time; a measured one takes longer."""
    for _ in range(steps):
        clock.now += step_s + measured_s * reporter.times.runs
        if reporter.times.runs:
            assert reporter.times.at == reporter.steps + 1
            reporter.times.lap("forward")
        reporter.step(1.0)


def measured(reporter: MetricsReporter) -> list[int]:
    log = reporter._context.run_dir / EVENTS / f"worker-{reporter._context.rank}.jsonl"
    return [each["step"] for each in Tail(log).read() if each["kind"] == "step_time"]


def reporter_of(runs_root, name: str, ranks: Ranks | None = None, rank: int = 0) -> MetricsReporter:
    run_dir = new_directory(runs_root, name)
    write_spec(run_dir, make_spec("digits_mlp"))
    assignment = ALONE if not rank else type(ALONE)(**{**{f: getattr(ALONE, f) for f in ALONE.__slots__}, "rank": rank})
    return MetricsReporter(Context(str(run_dir), assignment), ranks=ranks)


@pytest.mark.parametrize("step_s", [0.001, 0.02, 0.7, 5.0])
def test_all_ranks_measure_the_same_steps_at_most_one_a_second(runs_root, clock, step_s) -> None:
    leader = Leader()
    first, count = reporter_of(runs_root, "first", leader), round(max(60.0, 30 * step_s) / step_s)
    train(first, clock, count, step_s)
    of_first = measured(first)
    assert 5 < len(of_first) <= 60
    gaps = [(after - before) * step_s for before, after in itertools.pairwise(of_first)]
    assert min(gaps) >= step_times.LEAST_S * 0.7
    clock.now = 1000.0
    second = reporter_of(runs_root, "second", Follower(iter(leader.decisions)), rank=1)
    train(second, clock, count, 0.6 * step_s)  # by its own clock, fewer would be due
    assert measured(second) == of_first


def test_long_runs_and_dear_measurements_have_fewer(runs_root, clock) -> None:
    reporter = reporter_of(runs_root, "long")
    train(reporter, clock, 40_000, 0.5)  # five and a half hours
    assert 1000 < len(measured(reporter)) < step_times.KEPT * 5
    reporter = reporter_of(runs_root, "dear")
    train(reporter, clock, 4000, 0.1, measured_s=0.05)  # so a measured step may come every ten seconds
    assert 25 <= len(measured(reporter)) <= 45


def test_a_step_after_an_epoch_or_a_report_between_steps_is_not_measured(runs_root, clock) -> None:
    reporter = reporter_of(runs_root, "epochs")
    ends = [reporter.before_validation, reporter.report]
    for number in range(200):
        train(reporter, clock, 7, 0.1)
        reporter.times.runs = False  # as the controller does
        clock.now += 3.0
        ends[number % 2](**({"synchronises": True} if number % 2 == 0 else {}))
    assert len(measured(reporter)) > 20
    assert not [step for step in measured(reporter) if step % 7 == 1]


def test_parts_are_those_of_the_event() -> None:
    assert set(PARTS) < set(StepTime.__dataclass_fields__)
