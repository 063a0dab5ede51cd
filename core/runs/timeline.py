"""Tell what happened in a run, one line a thing, from its events."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

from core.runs.epoch_numbers import EpochNumbers
from core.runs.states import RunState, state_info
from core.runs.verdicts import Verdict, read_release
from core.text import MAX_NAMES, first_names, join_names
from core.units import disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from core.runs.facts import RunFacts
    from core.runs.verdicts import Release
    from core.schema.events import Event
    from core.schema.spec import RunSpec

MAX_ENTRIES = 10_000
"""Entries that are kept unless more are wanted."""
MAX_TEXT = 4_000
"""Characters of a text that are kept."""
SLOW_S = 1.0
"""Seconds from which on the parts of a start are told that are mostly short."""
PARTS = {
    "framework": "{what} loaded in {seconds}",
    "download": "downloads in {seconds}",
    "recipe": "recipe loaded in {seconds}",
    "data": "data in {seconds}",
    "model": "model built in {seconds}",
    "join": "processes joined in {seconds}",
    "checkpoint": "checkpoint loaded in {seconds}",
}
"""The phases of a start once they are over."""
ALWAYS_TOLD = ("framework", "data")
ENDINGS = {RunState.FINISHED: "Finished.", RunState.STOPPED: "Stopped."}
LOST = "The run was lost: its supervisor exited unexpectedly."


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One thing that happened."""

    time: float
    """Unix seconds."""
    text: str
    tone: str = ""
    """`warn` or `bad`; the empty string for what is as it should be."""


class Timeline:
    """What happened in one run, extended by `fold`. Unknown events are ignored, and so are damaged ones."""

    def __init__(self, spec: RunSpec | None, framework: str, *, max_entries: int | None = MAX_ENTRIES) -> None:
        """`spec`: None if it cannot be read. `framework`: its title, or the empty string for a script.

        `max_entries`: how many are kept, the newest ones; None for all.
        """
        self.entries: deque[TimelineEntry] = deque(maxlen=max_entries)
        self.count = 0
        """Number of entries so far, including those that are not kept."""
        self._spec, self._framework = spec, framework
        self._state = RunState.CREATED
        self._starts = 0
        self._began: float | None = None
        """When the run was started, until its first step."""
        self._is_told = True
        """Whether the present start has its entry."""
        self._labels: dict[str, str] = {}
        self._processes = 0
        self._python = self._version = ""
        self._phases: list[tuple[str, float]] = []
        self._step = 0
        self._epochs = EpochNumbers()
        self._releases: dict[str, Release] = {}
        self._is_lost = False
        self._readers: dict[str, Callable[[Event], None]] = {
            "supervisor": self._supervisor,
            "state": self._enter,
            "device": self._device,
            "worker": self._worker,
            "phase": self._phase,
            "plan": self._plan,
            "metrics": self._metrics,
            "progress": self._progress,
            "rewind": self._rewind,
            "checkpoint": self._checkpoint,
            "done": self._done,
            "notice": self._warn,
            "stray": self._warn,
            "stall": self._stall,
            "slowed": self._slowed,
            "request": self._request,
            "rung": self._stop_step,
            "ended": self._ended,
            "release": self._release,
        }

    def fold(self, events: Iterable[Event]) -> None:
        """Add events, ordered by time."""
        for event in events:
            reader = self._readers.get(event["kind"])
            if reader is None:
                continue
            try:
                reader(event)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
                continue  # the facts of the run report it

    def follow(self, facts: RunFacts) -> None:
        """Add that the run was lost, which no event says. `facts`: those after the events that were folded."""
        if facts.state is RunState.LOST and not self._is_lost:
            self._end_start()
            self._is_lost = True
            self._add(facts.ended or facts.latest, facts.error or LOST, "bad")

    def newest(self, count: int) -> list[TimelineEntry]:
        """Return the newest entries, at most `count`, in order."""
        left = min(count, len(self.entries))
        return [self.entries[at] for at in range(len(self.entries) - left, len(self.entries))]

    def _add(self, time: float, text: str, tone: str = "") -> None:
        self.count += 1
        self.entries.append(TimelineEntry(time=time, text=text[:MAX_TEXT], tone=tone))

    # -- start -----------------------------------------------------------------------------------

    def _supervisor(self, event: Event) -> None:
        if self._starts and not state_info(self._state).over and not self._is_lost:
            self._end_start()
            self._add(event["t"], LOST, "bad")
        self._starts += 1
        self._began, self._is_told, self._processes, self._is_lost = event["t"], False, 0, False
        self._python, self._phases, self._releases = "", [], {}
        self._state = RunState.CREATED
        self._epochs.restart()

    def _device(self, event: Event) -> None:
        self._labels[str(event["id"])] = str(event.get("label") or event["id"])

    def _worker(self, event: Event) -> None:
        if event.get("role") != "fetch":
            self._processes += 1

    def _phase(self, event: Event) -> None:
        if event["rank"] != 0:
            return
        self._python = str(event.get("python") or self._python)
        self._version = str(event.get("framework") or self._version)
        self._phases.append((str(event["name"]), event["t"]))
        self._tell_start(event["t"])

    def _tell_start(self, time: float) -> None:
        """Add that the run was started or resumed, once its processes are known."""
        if self._is_told or not self._processes:
            return
        self._is_told = True
        verb = "Started" if self._starts == 1 else "Resumed"
        processes = "1 process" if self._processes == 1 else f"{self._processes} processes"
        self._add(
            self._began if self._began is not None else time,
            f"{verb} on {_devices([*self._labels.values()])}: {processes}{self._interpreter()}.",
        )

    def _interpreter(self) -> str:
        """Return `, Python 3.12.3 of cats-env`."""
        if self._spec is None:
            return ""
        return f", Python {self._python} of {environment(self._spec.python)}".replace("  ", " ")

    def _end_start(self, first_step: float | None = None) -> None:
        """Add how long the parts of the start took. `first_step`: when the first step was done; None without one."""
        if self._framework and self._began is not None and (first_step is not None or len(self._phases) > 1):
            parts = self._parts(first_step)
            if first_step is not None:
                parts.append(f"first step after {_seconds(first_step - self._began)}")
            if parts:
                text = ", ".join(parts)
                self._add(first_step or self._phases[-1][1], f"{text[0].upper()}{text[1:]}.")
        self._began, self._phases = None, []

    def _parts(self, until: float | None) -> list[str]:
        took: dict[str, float] = {}
        for (name, begin), (_, end) in pairwise([*self._phases, ("", until if until is not None else math.nan)]):
            took[name] = took.get(name, 0.0) + end - begin
        what = f"{self._framework} {self._version}".rstrip()
        return [
            PARTS[name].format(what=what, seconds=_seconds(seconds))
            for name, seconds in took.items()
            if name in PARTS and not math.isnan(seconds) and (name in ALWAYS_TOLD or seconds >= SLOW_S)
        ]

    # -- training ----------------------------------------------------------------------------------

    def _plan(self, event: Event) -> None:
        self._epochs.steps_per_epoch = int(event["steps_per_epoch"])

    def _metrics(self, event: Event) -> None:
        if self._began is not None:
            self._tell_start(event["t"])
            self._end_start(event.get("since", event["t"]))
        last = int(event["first"]) + max(len(values) for values in event["values"].values()) - 1
        self._step = max(self._step, last)
        self._add_lines(self._epochs.fold(event))

    def _add_lines(self, lines: Iterable[tuple[float, str]]) -> None:
        for time, text in lines:
            self._add(time, text)

    def _progress(self, event: Event) -> None:
        self._add_lines(self._epochs.fold_progress(event))

    def _rewind(self, event: Event) -> None:
        self._tell_start(event["t"])
        self._end_epoch()
        self._step = int(event["step"])
        self._epochs.rewind(self._step)
        after = f"Training continues after step {_count(self._step)}."
        self._add(event["t"], after if self._step else "Training starts over.")

    def _checkpoint(self, event: Event) -> None:
        self._end_epoch()
        size = disk(event["bytes"]) if isinstance(event.get("bytes"), int) else ""
        best = "best so far" if event.get("best") is True else ""
        parts = [f"step {_count(int(event['step']))}", size, best]
        self._add(event["t"], f"Checkpoint written: {', '.join(filter(None, parts))}.")

    def _done(self, _: Event) -> None:
        self._end_epoch()

    def _end_epoch(self) -> None:
        self._add_lines(self._epochs.finish())

    # -- what a user should know ---------------------------------------------------------------------

    def _warn(self, event: Event) -> None:
        self._tell_start(event["t"])
        self._add(event["t"], str(event["text"]), "warn")

    def _stall(self, event: Event) -> None:
        if text := str(event.get("text") or ""):
            self._add(event["t"], text, "warn")
        else:
            self._add(event["t"], "Steps are reported again.")

    def _slowed(self, event: Event) -> None:
        if text := str(event.get("text") or ""):
            self._add(event["t"], text, "warn")
        else:
            device = str(event["device"])
            label, lasted = self._labels.get(device, device), _seconds(float(event["seconds"]))
            self._add(event["t"], f"{label} is not slowed down any more. It was for {lasted}.")

    def _request(self, event: Event) -> None:
        asked = {"pause": "A pause was requested.", "save": "A checkpoint was requested."}
        self._add(event["t"], asked[event["asked"]])

    def _stop_step(self, event: Event) -> None:
        name, grace_s = str(event["name"]), event.get("grace_s")
        done = "The processes were asked to stop" if name == "asked" else f"{name} was sent to the processes"
        self._add(event["t"], f"{done}." if grace_s is None else f"{done}; they have {float(grace_s):g} s.")

    def _ended(self, event: Event) -> None:
        names = [f"{each.get('name') or 'a process'} (pid {int(each['pid'])})" for each in event["processes"]]
        self._add(event["t"], f"Left over and ended: {join_names(first_names(names))}.", "warn")

    # -- states --------------------------------------------------------------------------------------

    def _enter(self, event: Event) -> None:
        self._state = state = RunState(event["state"])
        if state is RunState.STARTING:
            self._begin(event["t"])
        elif state is RunState.RUNNING:
            self._tell_start(event["t"])
        elif state is RunState.RELEASING:
            self._end_training(event["t"])
        elif state_info(state).over:
            self._conclude(event)

    def _begin(self, time: float) -> None:
        if not self.count:
            self._add(time, f"Created: {self._spec.name}." if self._spec is not None else "Created.")

    def _end_training(self, time: float) -> None:
        self._tell_start(time)
        self._end_start()
        self._end_epoch()
        self._add(time, f"Training ended at step {_count(self._step)}." if self._step else "The processes have ended.")

    def _conclude(self, event: Event) -> None:
        self._end_start()
        self._tell_release(event["t"])
        if self._state is RunState.PAUSED:
            self._add(event["t"], f"Paused at step {_count(self._step)}. The devices are free.")
        elif self._state is RunState.FAILED:
            self._add(event["t"], str(event.get("error") or "Training ended with an error."), "bad")
        else:
            self._add(event["t"], ENDINGS[self._state])

    def _release(self, event: Event) -> None:
        found = read_release(event)
        self._releases[found.device_id] = found
        if found.verdict is not Verdict.RELEASED:
            self._add(event["t"], found.sentence, "warn" if found.verdict is not Verdict.HELD_BY_RUN else "bad")

    def _tell_release(self, time: float) -> None:
        """Add which devices have their memory back."""
        found = [each for each in self._releases.values() if each.verdict is Verdict.RELEASED]
        if found:
            where = _devices([self._labels.get(each.device_id, each.device_id) for each in found])
            after = _seconds(max(each.seconds for each in found))
            self._add(time, f"All memory on {where} was released {after} after the end.")
        self._releases = {}


def environment(python: str) -> str:
    """Return a short name of an interpreter: the folder of its environment, or its path where it has none."""
    path = PurePath(python)
    folder = path.parent.parent
    if path.parent.name not in {"bin", "Scripts"} or folder.name in {"", "usr", "local"}:
        return python
    if folder.name in {"venv", ".venv", "env", ".env"} and folder.parent.name:
        return f"{folder.parent.name}/{folder.name}"
    return folder.name


def _devices(labels: Sequence[str]) -> str:
    """Return `GPU 0, 1 and 2`, or all labels where they are of several kinds."""
    kinds = {label.rpartition(" ")[0] for label in labels}
    numbers = [label.rpartition(" ")[2] for label in labels]
    if len(labels) > 1 and len(kinds) == 1 and all(number.isdecimal() for number in numbers):
        return f"{kinds.pop()} {join_names(first_names(numbers, limit=2 * MAX_NAMES))}".lstrip()
    return join_names(first_names(labels, limit=2 * MAX_NAMES)) or "no device"


def _seconds(value_s: float) -> str:
    """Return `under 0.1 s`, `0.3 s`, `12 s` or `3 min 5 s`."""
    if value_s < 0.05:
        return "under 0.1 s"
    if value_s < 9.95:
        return f"{value_s:.1f} s"
    whole = round(value_s)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60} s"


def _count(number: int) -> str:
    """Return a number with thin spaces between thousands."""
    return f"{number:,}".replace(",", "\u2009")
