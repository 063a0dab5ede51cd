"""Follow a run to its end on a terminal: one line of progress; Ctrl-C asks it to stop."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from core.findings import Verdict
from core.state import row

if TYPE_CHECKING:
    from typing import TextIO

    from core.run import Run

POLL_S = 0.1
SELDOM_POLL_S = 0.25
"""Where no line is rewritten: nobody sees it come later."""
ASKED = {"pause": "pausing", "save": "saving"}
LINE_EVERY_S = 5.0  # into a file or a pipe; a terminal's line is rewritten at every poll


def follow(run: Run, out: TextIO | None, *, stops: bool = True) -> None:
    """Return when the run is over. `out`: where progress goes; None for silence.

    With `stops` the first Ctrl-C asks the run to stop and the second forces it, or the end of the waiting for its
    devices' memory; without, Ctrl-C is the caller's.
    """
    progress = _Progress(run, out)
    while not _followed(run, progress):
        if not stops:
            progress.end()
            raise KeyboardInterrupt
        state = row(run.facts.state)
        run.request("force" if state.can_force else "stop")
        progress.say(state.forcing if state.can_force else "Stopping; Ctrl-C again forces it.")
    progress.end()


def _followed(run: Run, progress: _Progress) -> bool:
    """Follow until the run is over; False when Ctrl-C came first."""
    try:
        while not row(run.facts.state).over:
            progress.fold(run.poll())
            progress.show()
            time.sleep(progress.poll_s)
    except KeyboardInterrupt:
        return False
    return True


class _Progress:
    def __init__(self, run: Run, out: TextIO | None) -> None:
        self._run, self._out = run, out
        self._terminal = out is not None and out.isatty()
        self._loss: float | None = None
        self.poll_s = POLL_S if self._terminal else SELDOM_POLL_S
        self._shown_at = 0.0
        self._notices = 0
        self._told: set[str] = set()

    def fold(self, events: list[dict[str, object]]) -> None:
        for event in events:
            values = event.get("values")
            if event["kind"] == "metrics" and isinstance(values, dict) and values.get("loss"):
                self._loss = float(values["loss"][-1])
        for text in self._run.facts.notices[self._notices :]:
            self.say(text)
        self._notices = len(self._run.facts.notices)
        for sentence in self._new_findings():
            self.say(sentence)

    def _new_findings(self) -> list[str]:
        """What is waited for at the end, and of the devices' memory what people must know."""
        facts = self._run.facts
        bad = [each.sentence for each in facts.releases.values() if each.verdict is not Verdict.RELEASED]
        told = [sentence for sentence in (facts.waiting, *bad) if sentence and sentence not in self._told]
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
        parts = [ASKED.get(facts.asked) or row(facts.state).label.lower()]
        if facts.plan is not None:
            epoch = min(facts.plan.epochs, facts.step // facts.plan.steps_per_epoch + 1)
            parts += [f"epoch {epoch}/{facts.plan.epochs}", f"step {facts.step}/{facts.plan.steps}"]
        if self._loss is not None:
            parts.append(f"loss {self._loss:.4g}")
        if facts.rungs:
            parts.append(f"stop: {facts.rungs[-1].name}")
        return " · ".join(parts)
