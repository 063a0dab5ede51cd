"""Follow a run to its end on a terminal: one line of progress; Ctrl-C asks it to stop."""

from __future__ import annotations

import shutil
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from core.metrics.common.reading import IN_EPOCH
from core.runs.states import state_info
from core.runs.verdicts import Verdict
from core.schema.settings import StopTimeouts, escalation_steps

if TYPE_CHECKING:
    from typing import TextIO

    from core.runs.facts import EscalationStep, RunFacts, RunProgress
    from core.runs.run import Run

POLL_S = 0.1
SELDOM_POLL_S = 0.25
"""Where no line is rewritten: nobody sees it come later."""
ASKED = {"pause": "pausing", "save": "saving"}
NAMED = 5
"""So many of the processes that had to be ended are named, the others counted."""
LINE_EVERY_S = 5.0  # into a file or a pipe; a terminal's line is rewritten at every poll


def follow(run: Run, out: TextIO | None, *, stops: bool = True) -> float | None:
    """Return when the run is over, with the last loss that was seen. `out`: where progress goes; None for silence.

    With `stops` the first Ctrl-C asks the run to stop and the second forces it, or the end of the waiting for its
    devices' memory; without, Ctrl-C is the caller's.
    """
    progress = _Progress(run, out)
    while not _followed(run, progress):
        if not stops:
            progress.end()
            raise KeyboardInterrupt
        state = state_info(run.facts.state)
        run.request("force" if state.can_force else "stop")
        progress.say(state.forcing if state.can_force else "Stopping; Ctrl-C again forces it.")
    progress.end()
    return progress.loss


def _followed(run: Run, progress: _Progress) -> bool:
    """Follow until the run is over; False when Ctrl-C came first."""
    try:
        while not state_info(run.facts.state).over:
            progress.fold(run.poll())
            progress.show()
            time.sleep(progress.poll_s)
    except KeyboardInterrupt:
        return False
    return True


class Stopping:
    """What a run that is being ended is waiting for: each thing in a sentence, once."""

    def __init__(self, facts: RunFacts) -> None:
        """What `facts` tell is known already, but for the rung that the run is on."""
        self._rungs = max(0, len(facts.rungs) - 1)
        self._waiting: str | None = None

    def news(self, facts: RunFacts) -> list[str]:
        """What is new in `facts`."""
        told = [_rung_sentence(rung) for rung in facts.rungs[self._rungs :]]
        self._rungs = max(self._rungs, len(facts.rungs))
        if facts.waiting and facts.waiting != self._waiting:
            told.append(facts.waiting)
        self._waiting = facts.waiting or self._waiting
        return told


def _rung_sentence(rung: EscalationStep) -> str:
    done = "the workers were asked to stop" if rung.name == "asked" else f"{rung.name} was sent to the workers"
    following = dict(pairwise(name for name, _, _ in escalation_steps(StopTimeouts()))).get(rung.name)
    after = f"; {following} follows in {rung.grace_s:g} s" if following and rung.grace_s is not None else ""
    return f"{done}{after}."


def _far(progress: RunProgress) -> str:
    """`step 340/1000`, in whole numbers where they are; without what it counts where that is not known."""
    if progress.unit == IN_EPOCH:
        return f"{progress.done:g}/{progress.total:g} {IN_EPOCH}"
    unit = progress.unit.removesuffix("s")
    return f"{unit} {progress.done:g}/{progress.total:g}".strip()


def hard_end(facts: RunFacts) -> str | None:
    """What was killed, or was left over and ended, in a sentence; None when all ended by itself."""
    parts = []
    if any(rung.name == "SIGKILL" for rung in facts.rungs):
        parts.append("the workers were killed (SIGKILL)")
    if facts.ended_processes:
        first = [f"pid {each.pid} {each.name or ''}".rstrip() for each in facts.ended_processes[:NAMED]]
        more = len(facts.ended_processes) - NAMED
        signals = " and ".join(sorted({each.signal for each in facts.ended_processes}))
        parts.append(f"left over and ended ({signals}): {', '.join(first)}{f' and {more} more' if more > 0 else ''}")
    return "; ".join(parts) + "." if parts else None


class _Progress:
    def __init__(self, run: Run, out: TextIO | None) -> None:
        self._run, self._out = run, out
        self._terminal = out is not None and out.isatty()
        self.loss: float | None = None
        self.poll_s = POLL_S if self._terminal else SELDOM_POLL_S
        self._shown_at = 0.0
        self._notices = 0
        self._told: set[str] = set()

    def fold(self, events: list[dict[str, object]]) -> None:
        for event in events:
            values = event.get("values")
            if event["kind"] == "metrics" and isinstance(values, dict) and values.get("loss"):
                self.loss = float(values["loss"][-1])
        for text in self._run.facts.notices[self._notices :]:
            self.say(text)
        self._notices = len(self._run.facts.notices)
        for sentence in self._new_findings():
            self.say(sentence)

    def _new_findings(self) -> list[str]:
        """That no step ends, what is waited for at the end, and of the devices' memory what people must know."""
        facts = self._run.facts
        bad = [each.sentence for each in facts.releases.values() if each.verdict is not Verdict.RELEASED]
        unticked = [use.sentence for use in facts.unticked_device_uses]
        every = (*unticked, facts.stalled, facts.waiting, *bad)
        told = [sentence for sentence in every if sentence and sentence not in self._told]
        self._told.update(told)
        return told

    def show(self) -> None:
        if self._out is None or (not self._terminal and time.monotonic() - self._shown_at < LINE_EVERY_S):
            return
        self._shown_at = time.monotonic()
        self._out.write(f"\r\033[K{self._fitting(self._line())}" if self._terminal else f"{self._line()}\n")
        self._out.flush()

    def say(self, text: str) -> None:
        if self._out is not None:
            self._out.write(f"\r\033[K{text}\n" if self._terminal else f"{text}\n")

    def end(self) -> None:
        if self._terminal and self._out is not None:
            self._out.write("\r\033[K")

    def _fitting(self, line: str) -> str:
        """Cut to the terminal's width: of a line that wraps, only the last row could be rewritten."""
        return line[: shutil.get_terminal_size().columns - 1]

    def _line(self) -> str:
        facts = self._run.facts
        parts = [ASKED.get(facts.asked) or state_info(facts.state).label.lower()]
        if facts.plan is not None:
            epoch = min(facts.plan.epochs, facts.step // facts.plan.steps_per_epoch + 1)
            parts += [f"epoch {epoch}/{facts.plan.epochs}", f"step {facts.step}/{facts.plan.steps}"]
        elif facts.progress is not None:
            parts.append(_far(facts.progress))
        elif facts.step:
            parts.append(f"step {facts.step}")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4g}")
        if facts.rungs:
            parts.append(f"stop: {facts.rungs[-1].name}")
        return " · ".join(parts)
