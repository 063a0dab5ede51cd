"""The head of the window: which run is looked at, in which state, how far it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import catalog
from core.ladder import rungs
from core.spec import StopLadder
from core.state import RunState, row
from gui.words import DASH, duration, rate

if TYPE_CHECKING:
    from core.spec import RunSpec
    from core.state import Facts
    from gui.progress import Progress
    from gui.session import Session

SECOND_THOUGHT_S = 0.8
"""A stop cannot be forced sooner: the second half of a double click is no decision."""
RUNG_NAMES = tuple(name for name, _, _ in rungs(StopLadder()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """All that the head shows; without a run, as its defaults say."""

    label: str = "No run"
    tone: str = "muted"
    sentence: str = "No run is shown. Start one, or choose one from the list."
    name: str = ""
    what: str = "Tick devices, choose what to train, and press Start"
    epoch: str = ""
    fraction: float | None = None
    detail: str = ""
    """How fast it goes; or while it is stopped, the rungs of the ladder."""
    can_stop: bool = False
    can_force: bool = False
    stopping: bool = False
    """Stop has been asked for: the button is for forcing it."""


def head(session: Session) -> Head:
    """The head for what a session looks at."""
    if session.run is None:
        return Head()
    facts, state = session.facts, row(session.facts.state)
    progress = session.progress()
    since_asked = time.monotonic() - session.stop_asked if session.stop_asked is not None else None
    return Head(
        label=state.label,
        tone=state.colour,
        sentence=state.sentence,
        name=session.spec.name if session.spec else session.run.id,
        what=_what(session.spec) if session.spec else "",
        epoch=f"epoch {progress.epoch} / {progress.epochs}" if progress else "",
        fraction=progress.fraction if progress else None,
        detail=_detail(facts, progress),
        can_stop=state.can_stop and since_asked is None,
        can_force=state.can_force and (since_asked is None or since_asked > SECOND_THOUGHT_S),
        stopping=state.can_force or (state.can_stop and since_asked is not None),
    )


def _what(spec: RunSpec) -> str:
    """`PyTorch, data parallel (DDP) on 2 devices`."""
    count = f"{len(spec.devices)} device{'s' if len(spec.devices) != 1 else ''}"
    try:
        title = catalog.cell(spec.framework, spec.strategy).title
        return f"{catalog.framework(spec.framework).title}, {title[0].lower()}{title[1:]} on {count}"
    except ValueError:  # a run of a version that had it
        return f"{spec.framework}, {spec.strategy} on {count}"


def _detail(facts: Facts, progress: Progress | None) -> str:
    if facts.state is RunState.STOPPING and facts.rungs:
        return ladder_text(facts, time.time())
    if progress is None:
        return ""
    parts = [rate(progress.samples_per_s) if progress.samples_per_s is not None else ""]
    if progress.took_s is not None:
        parts.append(f"took {duration(progress.took_s)}")
    elif facts.state is RunState.RUNNING:
        parts.append(f"{duration(progress.left_s) if progress.left_s is not None else DASH} left")
    return " · ".join(part for part in parts if part)


def ladder_text(facts: Facts, now: float) -> str:
    """The rungs that were taken, and when the next follows: `asked · SIGINT in 7 s`."""
    taken = [rung.name for rung in facts.rungs]
    last = facts.rungs[-1]
    following = RUNG_NAMES[RUNG_NAMES.index(last.name) + 1 :] if last.name in RUNG_NAMES else ()
    if last.grace_s is None or not following:
        return " · ".join(taken)
    wait_s = max(0, round(last.time + last.grace_s - now))
    return " · ".join([*taken, f"{following[0]} in {wait_s} s"])
