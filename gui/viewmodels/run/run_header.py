"""The head of the window: which run is looked at, in which state, how far it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from core.catalog import frameworks, strategies
from core.metrics.common.reading import IN_EPOCH
from core.runs.requests import unanswered
from core.runs.states import RunState, state_info
from core.schema.settings import StopTimeouts, escalation_steps
from gui.style.formatting import DASH, duration, number, rate, step_rate

from .memory_verdicts import head_words
from .pause_button import NO_RUN, PauseButtonState, pause_button_state, saved_words
from .progress import took_s
from .run_rows import state_sentence

if TYPE_CHECKING:
    from core.runs.facts import RunFacts
    from core.schema.spec import RunSpec

    from .progress import ProgressView

SECOND_THOUGHT_S = 0.8
"""Nothing can be forced sooner: the second half of a double click is no decision."""
FRESH_S = 5.0
"""So long it is said that a checkpoint was written which somebody asked for."""
RUNG_NAMES = tuple(name for name, _, _ in escalation_steps(StopTimeouts()))


class Forcing(Enum):
    """What the button for stopping is for, once there is nothing more to stop."""

    WORKERS = "workers"
    """To end them at once: they were asked to stop."""
    WAITING = "waiting"
    """To wait no longer for the devices' memory: training has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """All that the head shows; without a run, as its defaults say."""

    label: str = "No run"
    tone: str = "muted"
    sentence: str = "No run is shown. Start one, or choose one from the list."
    name: str = ""
    what: str = "Tick devices, choose what to train, and press Start"
    epoch: str = ""
    """Which epoch, or step, of how many."""
    fraction: float | None = None
    detail: str = ""
    """How fast it goes; while it is stopped, the rungs of the ladder; when it was just saved, where."""
    released: str = ""
    """What became of the memory, once the run is over."""
    released_tone: str = ""
    saved: str = ""
    """What the last checkpoint is."""
    can_stop: bool = False
    can_force: bool = False
    stopping: Forcing | None = None
    """Stop has been asked for, or training has ended: the button is for forcing this."""
    pause: PauseButtonState = NO_RUN
    can_save: bool = False
    saving: bool = False
    save_refusal: str = ""
    """Why it cannot be asked to save; no text where it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """The run that the window shows, at one moment."""

    id: str
    facts: RunFacts
    spec: RunSpec | None = None
    spec_problem: str | None = None
    """Why the spec cannot be read, in a sentence."""
    progress: ProgressView | None = None
    asked: str = ""
    """`pause` or `save` while the run has yet to answer that request; else the empty string."""
    stop_asked: float | None = None
    """When this window asked the run to stop, by `time.monotonic()`."""

    @property
    def is_script(self) -> bool:
        """True if the run starts a user's program."""
        return self.spec is not None and self.spec.script is not None

    def refusal(self, what: str) -> str:
        """Return why the run cannot answer a request to `pause` or `save`, or the empty string."""
        return unanswered(self.spec, what) if self.spec else ""


def run_header(run: RunSnapshot | None, *, resuming: bool = False) -> RunHeader:
    """Return the header of a run. `resuming`: the run is being resumed."""
    if run is None:
        return RunHeader()
    facts, state, now = run.facts, state_info(run.facts.state), time.time()
    progress = run.progress
    since_asked = time.monotonic() - run.stop_asked if run.stop_asked is not None else None
    forcing = _forcing(facts, now, asked=since_asked is not None)
    released, released_tone = head_words(facts)
    return RunHeader(
        label=state.label,
        tone=state.colour,
        sentence=state_sentence(facts.state, is_script=run.is_script),
        name=run.spec.name if run.spec else run.id,
        what=_what(run.spec) if run.spec else "",
        epoch=_place(progress) if progress else "",
        fraction=progress.fraction if progress else None,
        detail="resuming …" if resuming else _detail(run, now),
        released="" if resuming else released,
        released_tone=released_tone,
        saved=saved_words(facts.checkpoint, now),
        can_stop=state.can_stop and since_asked is None,
        can_force=bool(forcing and state.can_force) and (since_asked is None or since_asked > SECOND_THOUGHT_S),
        stopping=forcing,
        pause=pause_button_state(
            facts,
            run.asked,
            resuming=resuming,
            now=now,
            spec_problem=run.spec_problem,
            refusal=run.refusal("pause"),
        ),
        can_save=state.can_save and not run.refusal("save"),
        save_refusal=run.refusal("save"),
        saving=run.asked == "save",
    )


def _forcing(facts: RunFacts, now: float, *, asked: bool) -> Forcing | None:
    """What there is to force; `asked`: whether this window has asked the run to stop."""
    state = state_info(facts.state)
    if facts.state is RunState.RELEASING:
        since_s = now - facts.history[-1][0] if facts.history else SECOND_THOUGHT_S
        # Mostly it is over sooner. Less than 0: the clock was set back, and is not waited for.
        return None if 0 <= since_s < SECOND_THOUGHT_S else Forcing.WAITING
    return Forcing.WORKERS if state.can_force or (state.can_stop and asked) else None


def _what(spec: RunSpec) -> str:
    """`PyTorch, data parallel (DDP) on 2 devices`, `Keras, one device`, `Script, one process on 2 devices`."""
    count = f" on {len(spec.devices)} device{'s' if len(spec.devices) != 1 else ''}"
    try:
        cell = strategies.strategy_of(spec)
        what = "Script" if spec.script else frameworks.framework(spec.framework).title
    except ValueError:  # a run of a version that had it
        return f"{spec.framework}, {spec.strategy}{count}"
    how = f"{cell.title[0].lower()}{cell.title[1:]}"
    return f"{what}, {how}{'' if cell.parallel == 'one' else count}"


def _place(progress: ProgressView) -> str:
    """`epoch 3 of 10`, `step 340 of 1 000`, `340 of 1 000`, `epoch 2.34 of 3`, `91 of 100 in this epoch`."""
    done, total = (number(value, 1 if value == int(value) else 0.01) for value in (progress.done, progress.total))
    if progress.unit == IN_EPOCH:
        return f"{done} of {total} {IN_EPOCH}"
    return f"{progress.unit.removesuffix('s')} {done} of {total}".lstrip()


def _detail(run: RunSnapshot, now: float) -> str:
    facts, progress = run.facts, run.progress
    if facts.state is RunState.STOPPING and facts.stop_steps:
        return ladder_text(facts, now)
    if state_info(facts.state).can_save and run.asked == "save":
        return "saving …"
    if _tells_where_saved(facts, now):
        return saved_words(facts.checkpoint, now)
    if progress is not None:
        return _pace(facts, progress)
    took = took_s(facts) if run.spec and run.spec.script and state_info(facts.state).over else None
    return "" if took is None else f"took {duration(took)}"


def _tells_where_saved(facts: RunFacts, now: float) -> bool:
    """What was asked for is answered: for as long as it is news, or for as long as the run is paused."""
    written = facts.checkpoint
    if written is None:
        return False
    fresh = written.reason == "asked" and now - written.time < FRESH_S
    return facts.state is RunState.PAUSED or (fresh and state_info(facts.state).can_save)


def _pace(facts: RunFacts, progress: ProgressView) -> str:
    verdict_stands_beside = bool(facts.releases) and progress.took_s is not None
    speed = ""
    if progress.samples_per_s is not None:
        speed = rate(progress.samples_per_s)
    elif progress.steps_per_s is not None:
        speed = step_rate(progress.steps_per_s)
    parts = ["" if verdict_stands_beside else speed]
    if progress.took_s is not None:
        parts.append(f"took {duration(progress.took_s)}")
    elif facts.state is RunState.RUNNING:
        left = f"{duration(progress.left_s) if progress.left_s is not None else DASH} left"
        parts.append(f"{left} {IN_EPOCH}" if progress.unit == IN_EPOCH else left)
    return " · ".join(part for part in parts if part)


def ladder_text(facts: RunFacts, now: float) -> str:
    """The rungs that were taken, and when the next follows: `asked · SIGINT in 7 s`."""
    taken = [rung.name for rung in facts.stop_steps]
    last = facts.stop_steps[-1]
    following = RUNG_NAMES[RUNG_NAMES.index(last.name) + 1 :] if last.name in RUNG_NAMES else ()
    if last.grace_s is None or not following:
        return " · ".join(taken)
    wait_s = max(0, round(last.time + last.grace_s - now))
    return " · ".join([*taken, f"{following[0]} in {wait_s} s"])
