"""How a run goes on, from its facts, losses and a script's reports; and what stands where it has nothing to show."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from core.arrays import np
from core.language import tr, tr_noop
from core.metrics.reading import IN_EPOCH
from core.runs.facts import RunFacts, RunState, state_info
from core.schema.event_kinds import Plan, RunProgress
from core.series.min_max_tree import Floats
from core.series.series import Series

PACE_S = 5.0
"""Seconds over which to measure the throughput."""
FORECAST_S = 60.0
"""Seconds over which to estimate the time left, long enough to include validation."""
MIN_STEPS = 4
"""Minimum steps to measure a speed over, however long they take."""
MAX_REPORTS = 600
"""Maximum reports of a script to keep. It reports about once a second, so they cover more than `FORECAST_S`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """The progress of a run. None means unknown."""

    done: float
    total: float
    unit: str
    """What is counted: `epochs`, where `done` is the current one; for a script, the unit that it reports."""
    fraction: float
    samples_per_s: float | None
    steps_per_s: float | None
    """Only for a script that reports steps."""
    left_s: float | None


class ScriptProgress:
    """The progress reports of a script. A new epoch or another unit starts a new count."""

    def __init__(self) -> None:
        self._counted: tuple[float, str] | None = None
        self._first: tuple[float, float] = (0.0, 0.0)
        self._latest: deque[tuple[float, float]] = deque(maxlen=MAX_REPORTS)

    def add(self, progress: RunProgress) -> None:
        """Add a report."""
        time, done, counted = progress.time, progress.done, (progress.total, progress.unit)
        if counted != self._counted or done < self._latest[-1][1]:
            self._counted, self._first = counted, (time, done)
            self._latest.clear()
        if not self._latest or done > self._latest[-1][1]:  # a repeated report is not a step
            self._latest.append((time, done))

    def clear(self) -> None:
        """Start over when the run is started or resumed."""
        self._counted = None
        self._latest.clear()

    def steps(self) -> _Steps:
        """Return the counts and their times: the first and the latest."""
        reports = list(self._latest)
        if reports and reports[0] != self._first:
            reports = [self._first, *reports]
        times, done = np.array(reports).reshape(-1, 2).T
        return _Steps(steps=done, times=times)


def progress_view(
    facts: RunFacts, losses: Series | None, now: float, script: ScriptProgress | None = None
) -> ProgressView | None:
    """Return the progress of a run at `now` (unix seconds); None while the total is unknown."""
    if facts.plan is None and facts.earlier_plan is not None:  # it is being resumed
        facts = replace(facts, plan=facts.earlier_plan, step=facts.checkpoint.step if facts.checkpoint else 0)
    if facts.plan is not None and facts.plan.steps > 0:
        return _plan_progress(facts, facts.plan, losses, now)
    if facts.progress is not None and facts.progress.total > 0:
        return _script_progress(facts, facts.progress, script.steps() if script else _no_steps(), now)
    return None


def _plan_progress(facts: RunFacts, plan: Plan, losses: Series | None, now: float) -> ProgressView:
    over = state_info(facts.state).over
    recent = _steps_since_start(facts, losses)
    pace = None if has_ended(facts) else recent.pace(PACE_S, now)
    forecast = recent.pace(FORECAST_S, now) if facts.state is RunState.RUNNING else None
    return ProgressView(
        done=epoch_of(plan, facts.step, over=over),
        total=plan.epochs,
        unit="epochs",
        fraction=min(facts.step / plan.steps, 1.0),
        samples_per_s=None if pace is None else pace * plan.samples_per_epoch / plan.steps_per_epoch,
        steps_per_s=None,
        left_s=max(plan.steps - facts.step, 0) / forecast if forecast else None,
    )


def _script_progress(facts: RunFacts, reported: RunProgress, recent: _Steps, now: float) -> ProgressView | None:
    """Return what the script reports. It may report a total as done when it begins its last part: no forecast then."""
    if state_info(facts.state).over and reported.unit == IN_EPOCH:
        return None  # progress within an epoch does not describe the whole run
    pace = None if has_ended(facts) else recent.pace(PACE_S, now)
    forecast = (
        recent.pace(FORECAST_S, now) if facts.state is RunState.RUNNING and reported.done < reported.total else None
    )
    since_s = max(now - float(recent.times[-1]), 0.0) if len(recent.times) else 0.0
    return ProgressView(
        done=reported.done,
        total=reported.total,
        unit=reported.unit,
        fraction=min(max(reported.done / reported.total, 0.0), 1.0),
        samples_per_s=None,
        steps_per_s=pace if reported.unit == "steps" else None,
        left_s=max((reported.total - reported.done) / forecast - since_s, 0.0) if forecast else None,
    )


def epoch_of(plan: Plan, step: int, *, over: bool) -> int:
    """Return the current epoch, or the last one begun if the run is over."""
    begun = -(-step // plan.steps_per_epoch) if over else step // plan.steps_per_epoch + 1
    return min(begun, plan.epochs)


def has_ended(facts: RunFacts) -> bool:
    """Whether training has ended; the memory may still be checked."""
    return state_info(facts.state).over or facts.state is RunState.RELEASING


def took_s(facts: RunFacts, losses: Series | None) -> float | None:
    """Return the seconds of training: from the first step to the end, without pauses; None if unknown.

    Neither the start nor the check of the memory counts. A part without a step counts from when it ran.
    """
    took, began, running, ended = 0.0, None, None, None
    for time, state in facts.history:
        if state is RunState.STARTING:
            began, running, ended = time, None, None
        elif state is RunState.RUNNING:
            running = time
        elif state is RunState.RELEASING:
            ended = time
        if began is not None and (state is RunState.RELEASING or (state_info(state).over and ended is None)):
            first = _first_step(losses, began, time)
            took += time - (first if first is not None else running if running is not None else began)
    return took or None


def watched_s(facts: RunFacts, now: float) -> float | None:
    """Return the seconds for which the memory has been checked; None unless it is being checked."""
    if facts.state is not RunState.RELEASING or not facts.history:
        return None
    return max(now - facts.history[-1][0], 0.0)


def _first_step(losses: Series | None, since: float, until: float) -> float | None:
    """Return when the first step within these unix times was done; None if there is none."""
    if losses is None:
        return None
    at = int(np.searchsorted(losses.times, since))
    return float(losses.times[at]) if at < len(losses) and losses.times[at] <= until else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """The steps since the run was last started or resumed."""

    steps: Floats
    times: Floats

    def pace(self, window_s: float, now: float) -> float | None:
        """Return steps per second over the last `window_s`; None if unknown or outdated."""
        times = self.times
        if len(times) < 2:
            return None
        first = int(np.searchsorted(times, times[-1] - window_s))
        first = max(min(first, len(times) - 1 - MIN_STEPS), 0)
        took = float(times[-1] - times[first])
        if took <= 0 or now - float(times[-1]) > max(2 * window_s, 3 * took):
            return None
        return float(self.steps[-1] - self.steps[first]) / took


def _steps_since_start(facts: RunFacts, losses: Series | None) -> _Steps:
    if losses is None:
        return _no_steps()
    began = max((time for time, state in facts.history if state is RunState.STARTING), default=0.0)
    first = int(np.searchsorted(losses.times, began))
    return _Steps(steps=losses.steps[first:], times=losses.times[first:])


def _no_steps() -> _Steps:
    return _Steps(steps=np.empty(0), times=np.empty(0))


class Situation(Enum):
    """What is looked at, as far as it decides the sentence."""

    FIRST = "no run, and none in the folder"
    MACHINE = "no run"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    EARLY = "over before its first step"
    OVER = "over"


class Place(Enum):
    """A part of the window that may have nothing to show."""

    LOSS = "lossPlot"
    UTILISATION = "utilisationPlot"
    MEMORY = "memoryPlot"
    OTHER_READINGS = "plots of other readings"
    EVENTS = "events"
    LOG = "log"
    SETTINGS = "settings"


READING = tr_noop("The run is being read.")
"""What stands for the events of a long run until the first of them is read."""
SCRIPT, CPU = "script", "cpu"
"""Kinds of runs with a sentence of their own: a script, and a run on CPU devices only."""
BEGUN, ENDED = (Situation.QUEUED, Situation.STARTING, Situation.RUNNING), (Situation.EARLY, Situation.OVER)
_READINGS = {
    **dict.fromkeys((Situation.MACHINE, *BEGUN), tr_noop("The first reading comes in a moment.")),
    Situation.QUEUED: tr_noop("Readings begin with the run."),
    Situation.EARLY: tr_noop("The run ended before its devices were read."),
    Situation.OVER: tr_noop("No readings were recorded in this run."),
}
SENTENCES: dict[Place, dict[Situation, str]] = {
    Place.LOSS: {
        Situation.FIRST: tr_noop("There are no runs here yet. Begin with one of these."),
        Situation.MACHINE: tr_noop("The loss of a run appears here. Start a run, or select one in the list."),
        **dict.fromkeys(BEGUN, tr_noop("The curve begins with the first step.")),
        Situation.EARLY: tr_noop("The run ended before its first step."),
        Situation.OVER: tr_noop("No measurements were recorded in this run."),
    },
    Place.UTILISATION: _READINGS,
    Place.MEMORY: _READINGS,
    Place.OTHER_READINGS: _READINGS,
    Place.EVENTS: {
        Situation.MACHINE: tr_noop("What happens in a run appears here."),
        Situation.STARTING: tr_noop("The run begins in a moment."),
        Situation.RUNNING: tr_noop("No events were recorded yet."),
        **dict.fromkeys(ENDED, tr_noop("The run recorded nothing.")),
    },
    Place.LOG: {
        Situation.MACHINE: tr_noop("The output of a run appears here."),
        **dict.fromkeys(BEGUN, tr_noop("No output yet.")),
        Situation.EARLY: tr_noop("The run ended without any output."),
        Situation.OVER: tr_noop("The run printed no output."),
    },
    Place.SETTINGS: {
        Situation.FIRST: tr_noop("The settings of a run appear here."),
        Situation.MACHINE: tr_noop("The settings of a run appear here. Select one in the list."),
        **dict.fromkeys((*BEGUN, *ENDED), tr_noop("The settings of this run cannot be read.")),
    },
}
"""The sentences of all kinds of runs. In a first run the sentence of this machine stands where there is no other."""
OF_KIND: dict[tuple[Place, Situation, str], str] = {
    (Place.LOSS, Situation.RUNNING, SCRIPT): tr_noop("No measurement was found in the output of the script so far."),
    (Place.LOSS, Situation.OVER, SCRIPT): tr_noop(
        "No measurement was found in the output or the files of the script."
    ),
    (Place.MEMORY, Situation.MACHINE, CPU): tr_noop("The memory of CPU devices is read while a run is on them."),
}
"""The sentences that differ by kind."""


def situation_of(facts: RunFacts, *, is_shown: bool, are_runs: bool = True) -> Situation:
    """Return the situation of the run that is looked at; `is_shown`: whether there is one.

    `are_runs`: whether there are runs to look at.
    """
    if not is_shown:
        return Situation.MACHINE if are_runs else Situation.FIRST
    states = [state for _, state in facts.history]
    trained = RunState.RUNNING in states or facts.step > 0
    if state_info(facts.state).over:
        return Situation.OVER if trained else Situation.EARLY
    if state_info(facts.state).waits:
        return Situation.QUEUED
    return Situation.STARTING if facts.state in {RunState.CREATED, RunState.STARTING} else Situation.RUNNING


def empty_words(place: Place, situation: Situation, *, is_script: bool = False, is_cpu_only: bool = False) -> str:
    """Return the sentence for a place with nothing to show. `is_cpu_only`: there are CPU devices only."""
    kinds = [*([SCRIPT] if is_script else []), *([CPU] if is_cpu_only else [])]
    if situation not in SENTENCES[place]:
        situation = Situation.MACHINE
    own = (OF_KIND[place, situation, kind] for kind in kinds if (place, situation, kind) in OF_KIND)
    return tr(next(own, SENTENCES[place][situation]))


def plot_words(name: str, situation: Situation, *, is_script: bool = False, is_cpu_only: bool = False) -> str:
    """Return the sentence for a plot by its name."""
    place = next((each for each in Place if each.value == name), Place.OTHER_READINGS)
    return empty_words(place, situation, is_script=is_script, is_cpu_only=is_cpu_only)
