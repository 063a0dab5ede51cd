"""Say what a run does before its first step, in words with seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.runs.states import RunState

if TYPE_CHECKING:
    from core.runs.facts import RunFacts

SENTENCES = {
    "devices": "checking the devices {seconds}",
    "processes": "starting {count} processes {seconds}",
    "process": "starting Python {seconds}",
    "framework": "loading {framework} {seconds}",
    "download": "waiting for downloads {seconds}",
    "recipe": "loading the recipe {seconds}",
    "data": "reading data {seconds}",
    "model": "building the model {seconds}",
    "join": "joining {count} processes {seconds}",
    "checkpoint": "loading the checkpoint {seconds}",
    "compile": "compiling {seconds}",
    "step": "first step {seconds}",
}
"""By phase; see `core.worker.context.Context.enter_phase`. The first three are known from the supervisor."""
SHOWN_AFTER_S = 1.0
"""Seconds from which on they are shown."""


def start_words(facts: RunFacts, framework: str, now: float) -> str:
    """Return `loading PyTorch 3 s` while a run starts; the empty string for any other run.

    `framework`: its title, or the empty string for a script. `now`: unix seconds.
    """
    found = _phase(facts)
    if found is None or not framework:
        return ""
    name, since = found
    seconds = f"{now - since:.0f} s" if now - since >= SHOWN_AFTER_S else ""
    return SENTENCES[name].format(framework=framework, count=len(facts.workers), seconds=seconds).rstrip()


def _phase(facts: RunFacts) -> tuple[str, float] | None:
    """Return the phase, and since when it lasts in unix seconds."""
    if facts.state not in {RunState.STARTING, RunState.RUNNING}:
        return None
    if facts.phase is not None and facts.phase.name in SENTENCES:
        return facts.phase.name, facts.phase.since
    if facts.state is RunState.RUNNING:
        return None
    since = facts.history[-1][0]
    if not facts.workers:
        return "devices", since
    return "process" if len(facts.workers) == 1 else "processes", since
