"""Say what a run does before its first step, in words with seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr, tr_noop
from core.runs.states import RunState

if TYPE_CHECKING:
    from core.runs.facts import RunFacts

SENTENCES = {
    "devices": tr_noop("checking the devices {seconds}"),
    "processes": tr_noop("starting {count} processes {seconds}"),
    "framework": tr_noop("loading {framework} {seconds}"),
    "download": tr_noop("waiting for downloads {seconds}"),
    "recipe": tr_noop("loading the recipe {seconds}"),
    "data": tr_noop("reading data {seconds}"),
    "model": tr_noop("building the model {seconds}"),
    "join": tr_noop("joining {count} processes {seconds}"),
    "checkpoint": tr_noop("loading the checkpoint {seconds}"),
    "compile": tr_noop("compiling {seconds}"),
    "step": tr_noop("first step {seconds}"),
}
"""By phase; see `core.worker.context.Context.enter_phase`. The first two are known from the supervisor."""
ALONE = {
    "processes": tr_noop("starting Python {seconds}"),
    "join": tr_noop("waiting for the other processes {seconds}"),
}
"""Those of a run with one process, or with one that is known so far."""
SHOWN_AFTER_S = 1.0
"""A phase that has lasted fewer seconds is shown without a number."""


def start_words(facts: RunFacts, framework: str, now: float) -> str:
    """Return `loading PyTorch 3 s` while a run starts; the empty string for any other run.

    `framework`: its title, or the empty string for a script. `now`: unix seconds.
    """
    found = _phase(facts)
    if found is None or not framework:
        return ""
    name, since = found
    seconds = tr("{seconds} s", seconds=int(now - since)) if now - since >= SHOWN_AFTER_S else ""
    count = sum(worker.role != "fetch" for worker in facts.workers.values())
    sentence = ALONE.get(name, SENTENCES[name]) if count <= 1 else SENTENCES[name]
    return tr(sentence, framework=framework, count=count, seconds=seconds).rstrip()


def _phase(facts: RunFacts) -> tuple[str, float] | None:
    """Return the phase, and since when it lasts in unix seconds."""
    if facts.state not in {RunState.STARTING, RunState.RUNNING}:
        return None
    if facts.phase is not None and facts.phase.name in SENTENCES:
        return facts.phase.name, facts.phase.since
    if facts.state is RunState.RUNNING or facts.plan is not None:  # the first step is done
        return None
    since = facts.history[-1][0]
    if not facts.workers:
        return "devices", since
    return "processes", since
