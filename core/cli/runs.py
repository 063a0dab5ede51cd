"""Find the run that a command names, all runs, or the devices; follow a run to its end on a terminal."""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from core.catalog.frameworks import framework_title
from core.cli.output import confirm, is_interactive
from core.devices.device import Survey, devices_here
from core.devices.nvidia.preflight import TIMEOUT_S
from core.devices.sampler import Sampler
from core.diagnosis.start_phases import start_words
from core.errors import RunError
from core.history import index
from core.history.summary import RunSummary
from core.language import tr, tr_noop
from core.metrics.reading import IN_EPOCH
from core.queue.listing import why_it_waits
from core.runs.facts import RunFacts, RunState, state_info
from core.runs.owners import execution_warning
from core.runs.run import Run
from core.schema.event_kinds import Metrics, StopStep, Verdict
from core.schema.settings import StopTimeouts, escalation_steps
from core.schema.spec import RunSpec
from core.table import cut_to_columns
from core.text import as_sentence, first_names, join_names, replace_control_characters

EXIT_CODES = {
    RunState.FINISHED: 0, RunState.FAILED: 1, RunState.STOPPED: 3, RunState.PAUSED: 3, RunState.LOST: 4,
    RunState.HEAD_LOST: 4,
}
"""Exit code of a command that followed a run to this state."""

RUN = tr_noop(
    "name of the run or of its folder, the beginning of the folder's name, or a path; `trainyard runs` lists them"
)
"""What names a run, as help for an argument."""


def survey(names: Collection[str] = ()) -> Survey:
    """Return the devices of this machine and their readings, and the devices of hosts that are among `names`.

    Raises `ValueError` or `RunError` with a sentence for a host that cannot be asked.
    """
    with Sampler() as sampler:
        found = sampler.survey(TIMEOUT_S)
    if len(devices_here(names)) == len(names):
        return found
    from core.hosts.inquiry import devices_of  # only where there are hosts

    return replace(found, devices=(*found.devices, *devices_of(names)))


def find(options: Namespace, name: str | None = None) -> Run:
    """Return the run of this name; None: that of `options.run`. Raises `RunError` or `ValueError` with a sentence."""
    found = Run.attach(index.find(options.runs, options.run if name is None else name))
    found.spec()  # raises for a spec of a newer version
    return found


SILENT_S = 2.0
"""Seconds after which a command says, where no terminal shows it, that it is still reading."""


def all_runs(root: Path) -> list[RunSummary]:
    """Return the summaries of all runs, newest first. If that takes long, it is said how many are read.

    A terminal shows that all the time; else it is one line.
    """
    begin, end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n")
    since = None if begin else time.monotonic()

    def show(done: int, every: int) -> None:
        nonlocal since
        if begin or (since is not None and time.monotonic() - since > SILENT_S):
            since = None
            sys.stderr.write(f"{begin}{tr('{done} of {total} runs read', done=done, total=every)}{end}")
            sys.stderr.flush()

    try:
        return index.all_runs(root, show)
    finally:
        sys.stderr.write(begin)


def check_owner(options: Namespace, what: str, owner: str | None, spec: RunSpec) -> None:
    """Ask before what another user's run or preset names is executed. Raises `ValueError` unless that is agreed to.

    `what`: such as `Run NAME`. `owner`: the other user; None for one's own.
    """
    if owner is None or options.yes:
        return
    warning = tr("{what} belongs to {owner}. {execution_warning}", what=replace_control_characters(what), owner=owner,
                 execution_warning=execution_warning(owner, spec))
    if options.json or not is_interactive():
        raise ValueError(
            tr("{warning}\nNothing was done: there is no terminal to ask on. Add --yes if you agree.", warning=warning)
        )
    if not confirm(tr("{warning}\nExecute it?", warning=warning)):
        raise ValueError(tr("Nothing was done."))


POLL_S = 0.1
SLOW_POLL_S = 0.25
"""Seconds between polls if no terminal shows the progress."""
LINE_EVERY_S = 5.0
"""Seconds between lines of progress in a file or a pipe. On a terminal each poll rewrites the line."""
QUEUE_EVERY_S = 2.0
"""Seconds between two looks at why a queued run waits."""
STOP_WORDS = {"asked": tr_noop("asked")}
"""Words for the steps of a stop; signals have their own names."""
REQUEST_WORDS = {"pause": tr_noop("pausing"), "save": tr_noop("saving")}


def follow(run: Run, out: TextIO | None, *, stops: bool = True) -> float | None:
    """Wait until the run is over, and return the last loss. `out`: where progress is written; None for silence.

    With `stops`, the first Ctrl-C stops the run; the next one forces the end of the workers, or of the wait for device
    memory. Without, Ctrl-C raises `KeyboardInterrupt`.
    """
    progress = _Progress(run, out)
    with _interrupts() as interrupts:
        progress.fold(run.catch_up())  # so that the past of a run that is over is not shown as its progress
        while not state_info(run.facts.state).over:
            if interrupts:
                interrupts.pop()
                if not stops:
                    progress.end()
                    raise KeyboardInterrupt
                state = state_info(run.facts.state)
                run.request("force" if state.can_force else "stop")
                progress.say(tr(state.forcing) if state.can_force else tr("Stopping; Ctrl-C again forces it."))
            progress.fold(run.poll())
            progress.show()
            time.sleep(progress.poll_s)
    progress.end()
    return progress.loss


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect each Ctrl-C in a list. A `KeyboardInterrupt` would lose the events that are being read when it comes."""
    found: list[int] = []
    handles = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not handles or threading.current_thread() is not threading.main_thread():
        yield found  # it is ignored, as below `nohup`, or comes elsewhere
        return
    signal.signal(signal.SIGINT, lambda number, _: found.append(number))
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class StopMessages:
    """What a run does and waits for while it stops: each sentence once."""

    def __init__(self, facts: RunFacts, *, forced: bool = False) -> None:
        """Skip the steps before the latest one in `facts`. `forced`: SIGKILL follows each step at once."""
        self._forced = forced
        self._steps = max(0, len(facts.stop_steps) - 1)
        self._waiting: str | None = None

    def new(self, facts: RunFacts) -> list[str]:
        """Return the sentences that are new in `facts`."""
        sentences = [_step_sentence(step, forced=self._forced) for step in facts.stop_steps[self._steps :]]
        self._steps = max(self._steps, len(facts.stop_steps))
        if facts.waiting and facts.waiting != self._waiting:
            sentences.append(tr(facts.waiting))
        self._waiting = facts.waiting or self._waiting
        return sentences


def _step_sentence(step: StopStep, *, forced: bool) -> str:
    done = tr("{step} was sent to the workers", step=step.name)
    if step.name == "asked":
        done = tr("The workers were asked to stop")
    following = dict(pairwise(name for name, _, _ in escalation_steps(StopTimeouts()))).get(step.name)
    if following and step.grace_s is not None and not forced:
        done += tr("; {following} follows in {grace_s:g} s", following=following, grace_s=step.grace_s)
    return as_sentence(done)


def hard_end(facts: RunFacts) -> str | None:
    """Return which processes were killed or outlived their worker, in a sentence; None if there were none."""
    parts = []
    if any(step.name == "SIGKILL" for step in facts.stop_steps):
        parts.append(tr("the workers were killed (SIGKILL)"))
    if facts.ended_processes:
        names = [f"pid {each.pid} {each.name or ''}".rstrip() for each in facts.ended_processes]
        signals = join_names(sorted({each.signal for each in facts.ended_processes}))
        parts.append(
            tr("left over and ended ({signals}): {names}", signals=signals, names=join_names(first_names(names)))
        )
    return as_sentence(tr("; ").join(parts)) if parts else None


class _Progress:
    def __init__(self, run: Run, out: TextIO | None) -> None:
        self._run, self._out = run, out
        self._terminal = out is not None and out.isatty()
        self.loss: float | None = None
        self.poll_s = POLL_S if self._terminal else SLOW_POLL_S
        self._shown_at = 0.0
        self._notices = 0
        self._shown: set[str] = set()
        self._asked_at, self._reason = float("-inf"), ""

    @functools.cached_property
    def _framework(self) -> str:
        try:
            return framework_title(self._run.spec().framework)
        except ValueError:  # of another version
            return ""

    def fold(self, events: list[dict[str, object]]) -> None:
        for event in events:
            values = event.get("values")
            if event["kind"] == Metrics.kind and isinstance(values, dict) and values.get("loss"):
                latest = values["loss"][-1]
                self.loss = self.loss if latest is None else float(latest)  # None: this step has no value
        facts = self._run.facts
        for text in facts.notices[self._notices :]:
            self.say(tr(text))
        self._notices = len(facts.notices)
        not_released = [each.sentence for each in facts.releases.values() if each.verdict is not Verdict.RELEASED]
        unticked = [use.sentence for use in facts.unticked_device_uses]
        momentary = [facts.stopped_processes, facts.stalled, *facts.slowed.values(), facts.waiting]
        for sentence in (*unticked, *momentary, *not_released):
            if sentence and sentence not in self._shown:
                self._shown.add(sentence)
                self.say(tr(sentence))

    def _say_why_it_waits(self) -> None:
        """Say why a queued run waits, when that changes."""
        is_own_queued = self._run.facts.state is RunState.QUEUED and self._run.owner is None
        if not is_own_queued or time.monotonic() - self._asked_at < QUEUE_EVERY_S:
            return
        self._asked_at = time.monotonic()
        with contextlib.suppress(RunError, ValueError):
            reason = why_it_waits(self._run.dir)
            if reason != self._reason:
                self._reason = reason
                self.say(reason)

    def show(self) -> None:
        self._say_why_it_waits()
        if self._out is None or (not self._terminal and time.monotonic() - self._shown_at < LINE_EVERY_S):
            return
        self._shown_at = time.monotonic()
        line = self._line()
        if self._terminal:  # cut to the width: of a line that wraps, only the last row could be rewritten
            line = f"\r\033[K{cut_to_columns(line, shutil.get_terminal_size().columns - 1)}"
        self._out.write(line if self._terminal else f"{line}\n")
        self._out.flush()

    def say(self, text: str) -> None:
        if self._out is not None:
            text = replace_control_characters(text, keep="\n\t")  # from the run, which may be another user's
            self._out.write(f"\r\033[K{text}\n" if self._terminal else f"{text}\n")

    def end(self) -> None:
        if self._terminal and self._out is not None:
            self._out.write("\r\033[K")

    def _line(self) -> str:
        facts = self._run.facts
        parts = [tr(REQUEST_WORDS.get(facts.asked) or state_info(facts.state).label).lower()]
        if starting := start_words(facts, self._framework, time.time()):
            parts.append(starting)
        elif facts.plan is not None:
            epoch = min(facts.plan.epochs, facts.step // facts.plan.steps_per_epoch + 1)
            parts += [
                tr("epoch {epoch}/{epochs}", epoch=epoch, epochs=facts.plan.epochs),
                tr("step {step}/{steps}", step=facts.step, steps=facts.plan.steps),
            ]
        elif facts.progress is not None:
            words = PROGRESS.get(facts.progress.unit, tr_noop("{done:g}/{total:g}"))
            parts.append(tr(words, done=facts.progress.done, total=facts.progress.total))
        elif facts.step:
            parts.append(tr("step {step}", step=facts.step))
        if self.loss is not None:
            parts.append(tr("loss {loss:.4g}", loss=self.loss))
        if facts.stop_steps:
            parts.append(tr("stop: {step}", step=tr(STOP_WORDS.get(name := facts.stop_steps[-1].name, name))))
        return replace_control_characters(" · ".join(parts))


PROGRESS = {
    "steps": tr_noop("step {done:g}/{total:g}"),
    "epochs": tr_noop("epoch {done:g}/{total:g}"),
    IN_EPOCH: tr_noop("{done:g}/{total:g} in this epoch"),
}
"""The progress of a script, by its unit."""
