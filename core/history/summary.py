"""The summary of a run for a list: its settings, and its result, which is read from the ends of its files.

Every list, header and plot compares runs by the same loss: the best of validation, else a mean.
"""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from core.devices.names import BETWEEN_KINDS, TIMES, shown_name
from core.history.marks import NO_MARKS, Marks, read_marks
from core.language import tr
from core.runs.facts import RunFacts, RunState, state_info, worst
from core.runs.run import Mark, Run
from core.schema.event_kinds import (
    Checkpoint,
    MetricRestart,
    Metrics,
    Plan,
    Rewind,
    SettingChange,
    Verdict,
    read_all,
)
from core.schema.event_log import FOREIGN_BYTES
from core.schema.events import Event, last_step, parse
from core.schema.files import open_to_read, read_json
from core.schema.paths import COLLECTOR_EVENTS as COLLECTED
from core.schema.paths import EVENTS, SPEC_FILE, SUPERVISOR_EVENTS, worker_events
from core.schema.settings import Script, SettingValue, Training
from core.schema.spec import MAX_NAME, RunSpec, given_name, read_spec, setting_changes
from core.text import short

LOSS, VALIDATION_LOSS = "loss", "val_loss"
WEIGHT = 0.6
"""The weight of the mean, which the loss plot has, too, until it is changed: see `core.series.series`."""
RECENT = 100
"""Values of which the mean is taken: what earlier ones add cannot be seen in a float64."""
CHUNK_BYTES = 512 * 1024
DECISIVE = (f'"{VALIDATION_LOSS}":['.encode(), b'"rewind"', b'"checkpoint"', f'"{MetricRestart.kind}"'.encode())
"""What a line has that can change the best validation, or which is kept; the others are not parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoss:
    """A loss, and whether it is one of validation."""

    value: float
    is_validation: bool
    step: int | None = None
    """The step of the best validation."""
    kept: float | None = None
    """The validation loss of the best checkpoint, where the model with the best one was not kept."""

    @property
    def title(self) -> str:
        """What it is, in a word or two, to stand before the value."""
        return tr("val. loss") if self.is_validation else tr("loss")

    def words(self, number: Callable[[float], str] = short) -> str:
        """Return `val. loss 0.0764`, and the loss of the model that was kept where that is another one."""
        return self.with_kept(f"{self.title} {number(self.value)}", number)

    def with_kept(self, text: str, number: Callable[[float], str] = short) -> str:
        """Return the text for the value, and the loss of the model that was kept where that is another one."""
        return text if self.kept is None else tr("{loss} (kept: {kept})", loss=text, kept=number(self.kept))


def run_loss(
    best_validation: tuple[int, float] | None, mean: float | None, last: float | None, kept: float | None = None
) -> RunLoss | None:
    """Return the loss of a run: the best of its validations (step and value); else the mean; else the last loss.

    A mean does not hide a last loss that is not a number. `kept`: the loss of the best checkpoint; None without one.
    """
    if best_validation is not None:
        step, best = best_validation
        is_other = kept is not None and kept > best and not math.isclose(kept, best, rel_tol=1e-6)  # one is rounded
        return RunLoss(value=best, is_validation=True, step=step, kept=kept if is_other else None)
    value = mean if mean is not None and (last is None or math.isfinite(last)) else last
    return None if value is None else RunLoss(value=value, is_validation=False)


def recent_mean(newest: Sequence[float | None]) -> float | None:
    """Return the exponential mean after the last of these values, oldest first; None without a finite one."""
    finite = [value for value in newest if value is not None and math.isfinite(value)][-RECENT:]
    weights = [WEIGHT**age for age in reversed(range(len(finite)))]
    if not finite:
        return None
    mean = sum(weight * value for weight, value in zip(weights, finite, strict=True)) / sum(weights)
    return mean if math.isfinite(mean) else None


class ValidationReader:
    """Finds the validations in a file of measurements as it grows. What a resume has made void does not count."""

    def __init__(self, *, foreign: bool) -> None:
        """`foreign`: the run belongs to another user, and only its beginning is read."""
        self._most = FOREIGN_BYTES if foreign else None
        self._offset = 0
        self.nan_step: int | None = None
        """The first step whose loss is NaN or infinite."""
        self._best: list[tuple[int, float]] = []
        """Each validation that was better than all before it: after a rewind, an earlier one is the best again."""
        self.kept: float | None = None
        """The validation loss of the best checkpoint."""

    @property
    def best(self) -> tuple[int, float] | None:
        """The step and the value of the smallest validation loss so far."""
        return self._best[-1] if self._best else None

    def read(self, path: Path, until: float | None = None) -> bool:
        """Read what is new, until `until` (`time.monotonic()`); return whether that is all."""
        try:
            with open_to_read(path) as file:
                size = min(os.fstat(file.fileno()).st_size, self._most or math.inf)
                while self._offset < size:
                    if until is not None and time.monotonic() > until:
                        return False
                    file.seek(self._offset)
                    chunk = file.read(CHUNK_BYTES)
                    whole = chunk.rfind(b"\n") + 1
                    if not whole and len(chunk) < CHUNK_BYTES:
                        break  # its end is not written yet
                    self._offset += whole or len(chunk)  # such a long line is a batch, which has no validation
                    self._take_in(chunk[:whole])
        except OSError:
            pass
        return True

    def _take_in(self, chunk: bytes) -> None:
        for line in _lines_with(chunk, DECISIVE if self.nan_step is not None else (*DECISIVE, b"NaN", b"Infinity")):
            event = parse(line)
            if event is None:
                continue
            if event["kind"] == Rewind.kind:
                self._best = [found for found in self._best if found[0] <= event["step"]]
                self.nan_step = None if (self.nan_step or 0) > event["step"] else self.nan_step
            elif event["kind"] == MetricRestart.kind:
                self._best = [] if VALIDATION_LOSS in event["metrics"] else self._best
                self.nan_step = None if LOSS in event["metrics"] else self.nan_step
            elif event["kind"] == Checkpoint.kind:
                self.kept = next((each.kept for each in read_all(Checkpoint, [event])), None)
            elif event["kind"] == Metrics.kind:
                losses = enumerate(event["values"].get(LOSS, ()), event["first"]) if self.nan_step is None else ()
                broken = (at for at, loss in losses if loss is not None and not math.isfinite(loss))
                self.nan_step = next(broken, self.nan_step)
                for step, value in enumerate(event["values"].get(VALIDATION_LOSS, ()), event["first"]):
                    if value is not None and math.isfinite(value) and (self.best is None or value < self.best[1]):
                        self._best.append((step, float(value)))


def _lines_with(chunk: bytes, parts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield each line that has one of these parts, in order."""
    places: list[int] = []
    for part in parts:
        place = chunk.find(part)
        while place >= 0:
            places.append(place)
            place = chunk.find(part, place + 1)
    end = 0
    for place in sorted(places):
        if place >= end:
            begin, end = chunk.rfind(b"\n", 0, place) + 1, chunk.find(b"\n", place) + 1
            yield chunk[begin:end]


SEED, SWEEP = "seed", "sweep"
SEED_ARGUMENTS = frozenset({"seed", "random_seed", "manual_seed"})
"""Arguments of a script that are its seed, without dashes."""
ENVIRONMENT = "env."
"""The beginning of the names of variables."""
OPTION = re.compile(r"--?[A-Za-z][^\s=]*")
ASSIGNMENT = re.compile(r"(?P<name>--?[A-Za-z][^\s=]*|[+~]{0,2}[A-Za-z_][\w./-]*)=(?P<value>.*)", re.DOTALL)
"""`--lr=0.1`, or `optimizer.lr=0.1` as for Hydra."""


def setting_values(spec: RunSpec, devices: Mapping[str, Mapping[str, Any]]) -> dict[str, SettingValue]:
    """Return all settings of a run but its name. Fields of `Training` and of the recipe have their own names.

    `devices`: what the run recorded of each device, by id; may be empty. The devices count by kind and number, not by
    id. Variables of the environment are `env.NAME`; their values may be secrets.
    """
    if spec.imported:
        return {"imported": spec.imported, "devices": device_text((), {})}
    values: dict[str, SettingValue] = {"framework": spec.framework, "strategy": spec.strategy}
    if spec.script is not None:
        values |= _script_values(spec.script) | ({"stop_on_nan": True} if spec.training.stop_on_nan else {})
    else:
        values |= {"recipe": spec.own_recipe.path, **asdict(spec.training)}
        taken = {*values, *(item.name for item in fields(Training))}
        for name, value in spec.own_recipe.settings.items():
            values[f"recipe.{name}" if name in taken else name] = value
        values |= {f"checkpoints.{name}": value for name, value in asdict(spec.checkpoints).items()}
        values["allow_open_ports"] = spec.allow_open_ports
    values["devices"] = device_text(spec.devices, devices)
    values |= {f"stop.{name}": value for name, value in asdict(spec.stop_timeouts).items()}
    values |= {f"release.{name}": value for name, value in asdict(spec.release).items()}
    return values | {"cuda_ids": spec.cuda_ids, "python": spec.python, "working_dir": spec.working_dir}


def device_text(ids: Iterable[str], known: Mapping[str, Mapping[str, Any]]) -> str:
    """Return number and kind of devices, as CPU or GPU for a run that recorded no names."""
    kinds = Counter(
        str(known.get(each, {}).get("name") or ("CPU" if each.startswith("cpu:") else "GPU")) for each in ids
    )
    return BETWEEN_KINDS.join(f"{count}{TIMES}{kind}" for kind, count in sorted(kinds.items())) or "-"


def setting_words(name: str, value: object) -> str:
    """Return the value of a setting as users read it, in the language in use."""
    return shown_name(short(value)) if name == "devices" else short(value)


def _script_values(script: Script) -> dict[str, SettingValue]:
    values: dict[str, SettingValue] = {"script": script.module or script.path}
    for name, value in _arguments(script.arguments):
        plain = name.lstrip("-").replace("-", "_").lower()
        key = SEED if plain in SEED_ARGUMENTS else name
        before = values.get(key)
        values[key] = value if before is None or before is True else f"{before} {value}"
    values |= {f"{ENVIRONMENT}{name}": value for name, value in script.environment.items()}
    values |= {
        "env": " ".join(script.inherited), "expression": script.expression, "rules": "\n".join(script.rules),
        "rules_file": script.rules_file,
    }
    return values


def _arguments(words: tuple[str, ...]) -> Iterator[tuple[str, SettingValue]]:
    """Yield the arguments of a script by name: `--lr 0.1`, `--lr=0.1`, `lr=0.1`; True for `--flag`.

    An argument without a name gets its number.
    """
    left, number = list(words), 0
    while left:
        word = left.pop(0)
        if found := ASSIGNMENT.fullmatch(word):
            yield found["name"], found["value"]
        elif not OPTION.fullmatch(word):
            number += 1
            yield f"argument {number}", word
        elif left and not OPTION.match(left[0]) and not ASSIGNMENT.fullmatch(left[0]):
            yield word, left.pop(0)
        else:
            yield word, True


HEAD_BYTES = 64 * 1024
"""Bytes at the beginning of an event file in which the plan is searched."""
TAIL_BYTES = 256 * 1024
"""Bytes at the end of an event file in which the last loss is searched: more than one batch of measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A summary of a run."""

    dir: Path
    name: str
    state: RunState
    started: float | None = None
    ended: float | None = None
    error: str | None = None
    last_loss: float | None = None
    step: int = 0
    plan: Plan | None = None
    """None until the workers have loaded their data."""
    is_script: bool = False
    """Whether it is a program of the user, which cannot be resumed."""
    owner: str | None = None
    """The user to whom it belongs if that is another one; None for a run of one's own."""
    mean_loss: float | None = None
    """The exponential mean of the last losses."""
    best_validation: tuple[int, float] | None = None
    """The step and the value of the smallest validation loss."""
    kept_loss: float | None = None
    """The monitored loss of its best checkpoint."""
    renamed: bool = False
    """Whether the user gave it another name after its start."""
    nan_step: int | None = None
    """The first step whose loss is NaN."""
    verdict: Verdict | None = None
    """The worst verdict on the memory of its devices; None if there is none."""
    stalled: str | None = None
    marks: Marks = NO_MARKS
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """By name, without variables, and without the devices before its start; empty if its spec cannot be used."""

    @property
    def loss(self) -> RunLoss | None:
        """The loss by which the run is compared with others; None if it has none."""
        return run_loss(self.best_validation, self.mean_loss, self.last_loss, self.kept_loss)


class SummaryReader:
    """Follows a run without reading its measurements, except their end for the last loss."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run = Run(path, only=(SUPERVISOR_EVENTS,))
        self._plan: Plan | None = None
        self._settings: Mapping[str, SettingValue] = {}
        self._changes: list[SettingChange] = []
        self._validations = ValidationReader(foreign=self._run.owner is not None)
        self.is_whole = False
        """Whether all validations were found that were there."""
        self._over: tuple[RunSummary, Mark] | None = None
        """The summary of a run that is over, whose validations are not all found yet."""

    def summary(self, now: Mark, until: float | None) -> RunSummary:
        """Return the summary now; search for validations until `until` (`time.monotonic()`).

        `now`: see `mark` and `folders_mark`; a run that is over is read again when it has changed.
        """
        if self._over is None or self._over[1] != now:
            summary = self._read()
            self._over = (summary, now) if state_info(summary.state).over else None
        else:
            summary = self._over[0]
        found = self._validations
        self.is_whole = found.read(_measurements_file(self._path), until)
        return replace(summary, best_validation=found.best, kept_loss=found.kept, nan_step=found.nan_step)

    def _read(self) -> RunSummary:
        self._run.catch_up()
        facts = self._run.facts
        step, losses = _last_losses(self._path)
        self._plan = self._plan or _plan(self._path)
        if (changes := setting_changes(self._path)) != self._changes:
            self._changes, self._settings = changes, {}
        epochs = [each.new for each in changes if each.name == "epochs" and isinstance(each.new, int)]
        if self._plan is not None and epochs:
            self._plan = replace(self._plan, epochs=epochs[-1])
        name, is_script = name_and_kind(self._path)
        release = worst(facts.releases.values())
        if "devices" not in self._settings:
            self._settings = _settings(self._path, facts, self._settings)
        return RunSummary(
            dir=self._path, name=name, is_script=is_script, state=facts.state, started=facts.started,
            ended=facts.ended, error=facts.error, last_loss=losses[-1] if losses else None, step=step,
            plan=self._plan, owner=self._run.owner, mean_loss=recent_mean(losses),
            renamed=bool(given_name(self._path)), verdict=release.verdict if release is not None else None,
            stalled=facts.stalled, marks=read_marks(self._path), settings=self._settings,
        )


def present_facts(run_dir: Path) -> RunFacts:
    """Return the facts that the supervisor has recorded: the present state, and nothing that workers have measured."""
    head = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    head.catch_up()
    return head.facts


def name_and_kind(path: Path) -> tuple[str, bool]:
    """Return the name of a run, and whether it is a script."""
    try:
        spec = read_json(path / SPEC_FILE)
        return given_name(path) or str(spec["name"])[:MAX_NAME], spec.get("script") is not None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return path.name, False


def _settings(path: Path, facts: RunFacts, known: Mapping[str, SettingValue]) -> Mapping[str, SettingValue]:
    """Return the settings of a run, with its devices once they are known, or it is over. `known`: those without.

    A run that never left the queue has not recorded what its devices are.
    """
    only_waited = {state_info(state).waits for _, state in facts.history[:-1]} == {True}
    has_devices = bool(facts.devices) or (state_info(facts.state).over and not only_waited)
    if known and not has_devices:
        return known
    try:
        spec = read_spec(path)
        values = setting_values(spec, facts.devices)
    except ValueError:
        return {}
    values |= {SWEEP: spec.sweep} if spec.sweep else {}
    left_out = (ENVIRONMENT,) if has_devices else (ENVIRONMENT, "devices")
    return {name: value for name, value in values.items() if not name.startswith(left_out)}


def _measurements_file(path: Path) -> Path:
    """Return the file with the measurements: that of rank 0, or for a script that of the collector."""
    own = path / EVENTS / worker_events(0)
    return own if own.exists() else path / EVENTS / COLLECTED


def _plan(path: Path) -> Plan | None:
    """Return the plan in the first lines of the event file of rank 0."""
    try:
        with open_to_read(_measurements_file(path)) as file:
            lines = file.read(HEAD_BYTES).splitlines()
    except OSError:
        return None
    events = (parse(line) for line in lines if b'"plan"' in line)  # most lines are measurements
    plans = read_all(Plan, filter(None, events))
    return plans[-1] if plans else None


def _last_losses(path: Path) -> tuple[int, list[float | None]]:
    """Return the last step, and the losses of the last steps, from the whole batches near the end of the file."""
    found: list[float | None] = []
    most, last, last_other = sys.maxsize, None, None
    for event in _last_events(path):
        if event["kind"] == MetricRestart.kind:
            if LOSS in event["metrics"]:
                break  # a better source was found, and gave the losses from the start
        elif event["kind"] == Rewind.kind:
            most = min(most, event["step"])  # what was measured after it is void
        elif event["first"] <= most:
            losses = event["values"].get(LOSS)
            if losses is None:  # of a script that prints other metrics
                last_other = last_other or min(most, last_step(event))
                continue
            losses = losses[: most - event["first"] + 1]
            found[:0] = losses
            last = event["first"] + len(losses) - 1 if last is None else last
            most = min(most, event["first"] - 1)
            if len(found) >= RECENT:
                break
    if last is None:
        return last_other or (0 if most == sys.maxsize else most), []
    return last, found


def _last_events(path: Path) -> Iterator[Event]:
    """Yield the events near the end of the file that say what was measured, the last one first.

    Of the measurements without a loss only the last are yielded: parsing all of them would take milliseconds.
    """
    try:
        with open_to_read(_measurements_file(path)) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).split(b"\n")
    except OSError:
        return
    marks: tuple[bytes, ...] = (b'"metrics"', b'"loss":[', b'"rewind"', f'"{MetricRestart.kind}"'.encode())
    for line in reversed(lines):
        event = parse(line) if any(mark in line for mark in marks) else None
        if event is not None and event["kind"] in {Metrics.kind, Rewind.kind, MetricRestart.kind}:
            yield event
            if event["kind"] == Metrics.kind:
                marks = marks[-3:]
