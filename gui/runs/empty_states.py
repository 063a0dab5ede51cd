"""What stands where there is nothing to show: one sentence for each place, by the state and the kind of the run."""

from __future__ import annotations

from enum import Enum

from core.language import tr, tr_noop
from core.runs.facts import RunFacts, RunState, state_info


class Situation(Enum):
    """What is looked at, as far as it decides the sentence."""

    FIRST = "no run, and none in the folder"
    MACHINE = "no run"
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
BEGUN, ENDED = (Situation.STARTING, Situation.RUNNING), (Situation.EARLY, Situation.OVER)
_READINGS = {
    **dict.fromkeys((Situation.MACHINE, *BEGUN), tr_noop("The first reading comes in a moment.")),
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
        "No measurement was found in the output or the files of the script. A log pattern in the form can read them."
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
    starts = facts.state in {RunState.CREATED, RunState.QUEUED, RunState.STARTING}
    return Situation.STARTING if starts else Situation.RUNNING


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
