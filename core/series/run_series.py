"""All series of a run, built from its events, for drawing, summaries and export; and the loss it came to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.arrays import np
from core.diagnosis.timeline import SAMPLES_PER_S, STEPS_PER_S, WAITING, change_words
from core.history.summary import LOSS, RECENT, VALIDATION_LOSS, RunLoss, recent_mean, run_loss
from core.language import tr
from core.runs.facts import RunFacts
from core.schema import event_kinds as kinds
from core.schema.event_kinds import DeviceReading, MetricRestart, Metrics, Plan, Release, Rewind, StateChange, read
from core.schema.event_log import COLUMNS, MAX_NAMES, TIMES, TOO_MANY, by_device, columns
from core.schema.events import EPOCH, Event
from core.series.device_readings import (
    HEAT,
    NO_HEAT,
    DeviceSeries,
    Heat,
    Readings,
    Slowdown,
    join_old,
    note_slowdown,
)
from core.series.min_max_tree import Floats
from core.series.series import STEP, Axis, Series
from core.series.step_times import StepTimes
from core.text import join_phrases

MAX_RESUMES = 1000
"""Resumes that are noted; a planted file may have a million."""
ENDINGS = frozenset({"paused", "stopped", "failed"})
"""States that end a part of a run and that events give; a part without an end was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One such time. Times are unix seconds of measurements."""

    since: float
    """The last measurement before it that counts: steps after the checkpoint were trained again."""
    until: float
    """The first measurement after it."""
    duration_s: float
    """Seconds without training: from the last measurement before it, whether it counts or not, to `until`."""
    state: str
    """How the part before it ended: `paused`, `stopped`, `failed` or `lost`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resume:
    """A start of a run that had measured before."""

    at: float
    measured: float
    """The last measurement before it."""
    state: str
    """How the part before it ended."""


class Resumes:
    """Notes the states and the times of the measurements of a run, and finds its interruptions."""

    def __init__(self) -> None:
        self._state = ""
        self._measured: float | None = None
        """Unix time of the last measurement, whether it counts or not."""
        self._resumes: list[_Resume] = []

    def note_measurement(self, at: float) -> None:
        self._measured = max(self._measured or 0.0, at)

    def note_state(self, state: str, at: float) -> None:
        """Note that the run entered a state at this unix time."""
        before, self._state = self._state, state
        last = self._resumes[-1] if self._resumes else None
        if state != "starting" or self._measured is None or len(self._resumes) == MAX_RESUMES:
            return
        if last is not None and (self._measured == last.measured or at < last.at):
            return  # a part without a measurement lengthens the interruption
        ended = before if before in ENDINGS else "lost"
        self._resumes.append(_Resume(at=at, measured=self._measured, state=ended))

    def interruptions(self, measurements: Iterable[Floats]) -> list[Interruption]:
        """Return the interruptions in order, without one after which nothing was measured.

        `measurements`: the unix times of the measurements of each metric that count, each in order and not empty.
        """
        if not self._resumes:
            return []
        at = np.array([resume.at for resume in self._resumes])
        since, until = np.full(len(at), -np.inf), np.full(len(at), np.inf)
        for times in measurements:
            place = np.searchsorted(times, at)
            since = np.maximum(since, np.where(place > 0, times.take(place - 1, mode="clip"), -np.inf))
            until = np.minimum(until, np.where(place < len(times), times.take(place, mode="clip"), np.inf))
        found = {}  # by `since`: two of them if the run was rewound beyond an earlier one
        for resume, begin, end in zip(self._resumes, since.tolist(), until.tolist(), strict=True):
            if np.isfinite(begin) and np.isfinite(end):
                found[begin] = Interruption(
                    since=begin, until=end, duration_s=max(end - resume.measured, 0.0), state=resume.state
                )
        return list(found.values())


MAX_REWINDS = 1000
"""Times that a run is rewound: once whenever it is resumed; a planted file may say so a million times."""


class RunSeries:
    """All series of a run, extended by `fold`. The window also has one for the devices without a run."""

    def __init__(self) -> None:
        self.metrics: dict[str, Series] = {}
        """By metric name: one value a step, or one an epoch for `val_...`."""
        self.by_epoch: set[str] = set()
        """Metrics of a script whose steps are numbers of epochs, because it reports no steps."""
        self._utilisation: dict[str, DeviceSeries] = {}
        self._memory: dict[str, DeviceSeries] = {}
        self._readings: dict[str, Readings] = {}
        """Readings that are not appended yet, by device id: they come often but are seldom used."""
        self._heat: dict[str, dict[str, DeviceSeries]] = {name: {} for name in HEAT}
        self._heat_readings: dict[str, Readings] = {}
        """Readings of heat that are not appended yet, by device id: the window shows them on request only."""
        self.changes: dict[int, tuple[float, str]] = {}
        """By step, the unix time and the words of the settings, or of the devices, that were changed after it."""
        self._moved: tuple[float, str] | None = None
        """When and where the run is resumed on other devices, until the step is known."""
        self.slowdowns: dict[str, list[Slowdown]] = {}
        """By device id, in order of time."""
        self.step_times = StepTimes()
        self.steps_per_epoch: int | None = None
        self._samples_per_step: float | None = None
        self._rate: tuple[int, dict[str, Series]] = -1, {}
        self.started: float | None = None
        """Unix time of the first event after the wait in the queue."""
        self.training_ended: float | None = None
        """Unix time at which the last worker had exited and the memory watch began."""
        self.notice = ""
        """What is missing, in a sentence; the empty string if nothing is."""
        self._rewinds = 0
        self._resumes = Resumes()
        self._interruptions: tuple[int, tuple[Interruption, ...]] = -1, ()
        """The version for which they were found, and what was found."""
        self.version = 0
        """Increases with every fold of new events: a plot of this version is up to date."""

    @property
    def utilisation(self) -> dict[str, DeviceSeries]:
        """Percent by device id; NaN if there was no reading."""
        self._append_readings(list(self._readings))
        return self._utilisation

    @property
    def memory(self) -> dict[str, DeviceSeries]:
        """Bytes in use by device id; NaN if there was no reading."""
        self._append_readings(list(self._readings))
        return self._memory

    @property
    def temperature(self) -> dict[str, DeviceSeries]:
        """Degrees Celsius by device id; NaN if there was no reading. A device that never had one is left out."""
        return self._heat_series("temperature")

    @property
    def power(self) -> dict[str, DeviceSeries]:
        """Watts by device id, like `temperature`."""
        return self._heat_series("power")

    @property
    def clock(self) -> dict[str, DeviceSeries]:
        """Megahertz of the multiprocessors by device id, like `temperature`."""
        return self._heat_series("clock")

    @property
    def trained(self) -> list[tuple[float, float]]:
        """The unix times between which it trained: from its first measurement on, if it has any; no interruptions."""
        begun = min((float(series.times[0]) for series in self._measurements), default=self.training_ended and 0.0)
        if begun is None:
            return []
        cuts = [(each.since, each.until) for each in self.interruptions]
        ends = [begun, *(time for cut in cuts for time in cut), self.training_ended or float("inf")]
        return list(zip(ends[::2], ends[1::2], strict=True))

    @property
    def every_reading(self) -> tuple[dict[str, DeviceSeries], ...]:
        """All series of readings by device id."""
        return self.utilisation, self.memory, *(self._heat_series(name) for name in HEAT)

    @property
    def axes(self) -> dict[str, Axis]:
        """The horizontal axes for this run.

        `step`; `epoch`, if known; `time`: seconds since its start; `training`: seconds since its first measurement,
        without its interruptions.
        """
        begun = min((float(series.times[0]) for series in self._measurements), default=self.started or 0.0)
        cuts = tuple((each.since, each.until) for each in self.interruptions)
        training = Axis(column="time", origin=begun, cuts=cuts)
        axes = {"step": STEP, "time": Axis(column="time", origin=self.started or 0.0), "training": training}
        if self.steps_per_epoch:
            axes["epoch"] = Axis(column="step", unit=self.steps_per_epoch)
        return axes

    @property
    def drawn(self) -> dict[str, Series]:
        """The metrics, how fast it trained, in samples or, if their number is unknown, steps a second; what waited."""
        if self._rate[0] != self.version:
            by_step = (each for name, each in self.metrics.items() if name not in self.by_epoch)
            rate = max(by_step, key=len, default=Series()).rate(self.axes["training"], self._samples_per_step or 1.0)
            found = {SAMPLES_PER_S if self._samples_per_step else STEPS_PER_S: rate, WAITING: self.step_times.waiting()}
            self._rate = self.version, {name: each for name, each in found.items() if len(each) > 1}
        return self._rate[1] | self.metrics

    @property
    def interruptions(self) -> tuple[Interruption, ...]:
        """The times between its parts in which the run did not train, in order."""
        if self._interruptions[0] != self.version:
            found = self._resumes.interruptions(series.times for series in self._measurements)
            self._interruptions = self.version, tuple(found)
        return self._interruptions[1]

    @property
    def _measurements(self) -> list[Series]:
        return [series for series in self.metrics.values() if len(series)]

    @property
    def duration_s(self) -> float:
        """Seconds from the first event to the last measurement."""
        ends = [float(series.times[-1]) for series in self._all_series if len(series)]
        return max(ends) - self.started if ends and self.started is not None else 0.0

    def fold(self, events: Iterable[Event]) -> None:
        """Add events, ordered by time. Unknown kinds and fields are ignored."""
        # Collect first and append once: many small appends would take longer than reading the file.
        metrics: dict[str, _Batches] = {}
        samples: list[Mapping[str, Any]] = []
        count = 0
        for count, event in enumerate(events, 1):  # noqa: B007 (used after the loop)
            if self.started is None and "queued" not in {event["kind"], event.get("state")}:
                self.started = float(event["t"])
            match event["kind"]:
                case DeviceReading.kind | "samples":
                    samples.append(event)
                case Metrics.kind:
                    self._resumes.note_measurement(float(event["t"]))
                    self._collect(metrics, event)
                case kind if kind in StepTimes.kinds:
                    self.step_times.add(event)
                case Rewind.kind if self._rewinds < MAX_REWINDS:
                    self._rewinds += 1
                    self.step_times.add(event)
                    self._drop_after(event["step"], metrics)
                case MetricRestart.kind:
                    self._drop(event["metrics"], metrics)
                case Release.kind | Plan.kind | StateChange.kind | kinds.SettingChange.kind | kinds.Moved.kind:
                    self._add_samples(samples)  # the last reading of the memory watch comes after them
                    self._note(event)
        self.version += count
        self._add_samples(samples)
        for name, batches in metrics.items():
            batches.move_to(self.metrics.setdefault(name, Series()))

    @property
    def has_readings(self) -> bool:
        """Whether there is any reading of a device."""
        return any(each.min is not None for each in (*self.utilisation.values(), *self.memory.values()))

    def replace_by(self, other: RunSeries) -> None:
        """Take over the content of `other`, which is then unused. Plots that draw this object now draw that content."""
        version = max(self.version, other.version) + 1
        vars(self).update(vars(other))
        self.version = version

    def prepare(self, like: RunSeries | None = None) -> None:
        """Do now what the first drawing would have to do for the values that are new.

        `like`: a run that was drawn; this one will be smoothed as it was.
        """
        for name, series in self.metrics.items():
            series.prepare(like.metrics.get(name) if like is not None else None)
        for series in (*self.utilisation.values(), *self.memory.values()):
            series.prepare()

    @property
    def size_bytes(self) -> int:
        return sum(series.size_bytes for series in self._all_series)

    @property
    def _all_series(self) -> list[Series]:
        """All but those of heat."""
        return [*self.metrics.values(), *self.utilisation.values(), *self.memory.values()]

    def add_reading(
        self, device_id: str, at: float, utilisation_percent: float | None, memory_used_bytes: float | None,
        heat: Heat = NO_HEAT,
    ) -> None:
        """Add a reading of a device, taken at `at` in unix seconds; None: no reading."""
        self.version += 1
        if self.started is None:
            self.started = float(at)
        values = (float(at), device_id, utilisation_percent, memory_used_bytes, *heat)
        self._add_columns(dict(zip(COLUMNS, ([value] for value in values), strict=True)))

    def begin(self, kind: int, device_id: str, times: Floats, values: Floats, gap_s: float) -> None:
        """Put these first readings, and a gap after them, into a series of `every_reading`. `times`: unix seconds."""
        known = (self._utilisation, self._memory, *self._heat.values())[kind].setdefault(device_id, DeviceSeries())
        if len(times):
            count, after = np.arange(len(times) + 1, dtype=np.float64), times[-1] + gap_s
            known.append(count, np.append(times, after), np.append(values, np.nan))
            self.started = min(float(times[0]), self.started or float(times[0]))
            self.version += 1

    def _add_samples(self, samples: list[Mapping[str, Any]]) -> None:
        """Add readings, each device's ordered by time, and forget them there."""
        if samples:
            found = columns(samples)  # in columns: a long run has a million readings
            began = float(found[TIMES][0])  # of a packed event this is before its time
            self.started = began if self.started is None else min(began, self.started)
            self._add_columns(found)
            samples.clear()

    def _add_columns(self, found: dict[str, list[Any]]) -> None:
        """Add readings in the columns of `core.schema.event_log`."""
        for device_id, of_device in by_device(found):
            if device_id not in self._readings:
                if self._is_full(device_id, self._utilisation):
                    continue
                for series in (self._utilisation, self._memory):
                    series.setdefault(device_id, DeviceSeries())
                self._readings[device_id] = Readings(2)
            at, _, utilisation, memory, *heat, words = of_device.values()
            if self._readings[device_id].extend(at, utilisation, memory):
                self._append_readings([device_id])
            if any(words) or device_id in self.slowdowns:
                known = self.slowdowns.setdefault(device_id, [])
                for time, of_reading in zip(at, words, strict=True):
                    note_slowdown(known, float(time), tuple(map(str, of_reading or ())))
            self._add_heat(device_id, at, heat)

    def _add_heat(self, device_id: str, times: list[float], heat: list[list[float | None]]) -> None:
        """Add readings of one device in the order of `HEAT`, from the first one on that there is."""
        if device_id not in self._heat_readings:
            if device_id not in self._heat["temperature"]:
                known_at = (row for row, each in enumerate(zip(*heat, strict=True)) if each != NO_HEAT[:3])
                first = next(known_at, None)
                if first is None:
                    return  # a device without such readings, as CPU devices are
                times, heat = times[first:], [column[first:] for column in heat]
            self._heat_readings[device_id] = Readings(len(HEAT))
        if self._heat_readings[device_id].extend(times, *heat):
            self._append_heat([device_id])

    def _is_full(self, name: str, kept: Collection[str]) -> bool:
        """Return whether there are too many series for another one, and note then that it is missing."""
        full = name not in kept and len(kept) >= MAX_NAMES
        if full:
            self.notice = tr(TOO_MANY, count=MAX_NAMES)
        return full

    def _add_released_memory(self, release: Release) -> None:
        """Add the last memory reading of the memory watch; a short watch has no other reading of the device.

        If the run resumes, the device's next reading takes the place of this one.
        """
        series, after, when = self.memory.get(release.device_id), release.after_bytes, release.time
        if series is not None and len(series) and after is not None and series.times[-1] < when:
            series.append(_floats([len(series)]), _floats([when]), _floats([after]))

    def _append_readings(self, device_ids: Iterable[str]) -> None:
        for device_id in device_ids:
            utilisation = self._utilisation[device_id]
            folds = self._readings.pop(device_id).move_to([utilisation, self._memory[device_id]])
            if folds and device_id in self.slowdowns:
                self.slowdowns[device_id] = join_old(self.slowdowns[device_id], utilisation)

    def _append_heat(self, device_ids: Iterable[str]) -> None:
        for device_id in device_ids:
            every = [series.setdefault(device_id, DeviceSeries()) for series in self._heat.values()]
            self._heat_readings.pop(device_id).move_to(every)

    def _heat_series(self, name: str) -> dict[str, DeviceSeries]:
        self._append_heat(list(self._heat_readings))
        found = self._heat[name]
        return {device_id: found[device_id] for device_id in self._utilisation if device_id in found}

    def _collect(self, metrics: dict[str, _Batches], event: Mapping[str, Any]) -> None:
        for name, values in event["values"].items():
            batches = metrics.get(name)
            if batches is None:
                if self._is_full(name, self.metrics):
                    continue
                self.metrics.setdefault(name, Series())
                batches = metrics[name] = _Batches()
            if event["first"] < batches.next_step:
                # The run repeats steps from a checkpoint: `Series.append` replaces the old values.
                batches.move_to(self.metrics.setdefault(name, Series()))
                batches = metrics[name] = _Batches()
            batches.add(event, values)
            if event.get("unit") == EPOCH:
                self.by_epoch.add(name)
            elif self.by_epoch:
                self.by_epoch.discard(name)

    def _drop_after(self, step: int, metrics: dict[str, _Batches]) -> None:
        """Drop the values after this step, from which the run was resumed."""
        if self._moved is not None:
            self.changes[step], self._moved = self._moved, None
        for name, batches in metrics.items():
            batches.move_to(self.metrics.setdefault(name, Series()))
        metrics.clear()
        kept = {name: _up_to(step, series) for name, series in self.metrics.items()}
        self.metrics = {name: series for name, series in kept.items() if len(series)}

    def _drop(self, names: Iterable[str], metrics: dict[str, _Batches]) -> None:
        """Drop these metrics: a more reliable source was found, and it gives them from the start."""
        for name in names:
            metrics.pop(name, None)
            self.metrics.pop(name, None)

    def _note(self, event: Event) -> None:
        try:
            record = read(event)
            words = change_words(record) if isinstance(record, kinds.SettingChange) else ""
        except (ValueError, TypeError, KeyError):
            return  # the facts of the run report it
        match record:
            case Plan():
                self.steps_per_epoch = record.steps_per_epoch
                self._samples_per_step = record.samples_per_epoch / max(record.steps_per_epoch, 1)
            case kinds.SettingChange() if len(self.changes) < MAX_REWINDS:
                _, others = self.changes.get(record.step, (0.0, ""))
                self.changes[record.step] = record.time, join_phrases(filter(None, (others, words)))
            case kinds.Moved():
                self._moved = record.time, tr(record.where)
            case Release():
                self._add_released_memory(record)
            case StateChange():
                self._resumes.note_state(record.state, record.time)
                if record.state == "releasing":
                    self.training_ended = record.time
                elif record.state in {"starting", "running"}:  # also when a paused run is resumed
                    self.training_ended = None


@dataclass(slots=True)
class _Batches:
    """Batches of one metric that are not appended yet."""

    first: list[int] = field(default_factory=list)
    since: list[float] = field(default_factory=list)
    until: list[float] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    every: list[int] = field(default_factory=list)
    """Steps from one value to the next."""
    values: list[float | None] = field(default_factory=list)
    next_step: int = 0

    def add(self, event: Mapping[str, Any], values: list[float | None]) -> None:
        if not values:
            return
        self.first.append(event["first"])
        self.until.append(event["t"])
        self.since.append(event.get("since", event["t"]) if len(values) > 1 else event["t"])
        self.count.append(len(values))
        self.values += values
        self.every.append(event.get("every", 1))
        self.next_step = event["first"] + (len(values) - 1) * self.every[-1] + 1

    def move_to(self, series: Series) -> None:
        """Append all to `series`, with evenly spaced times within each batch."""
        if not self.values:
            return
        count = np.array(self.count)
        index = np.arange(len(self.values)) - np.repeat(np.cumsum(count) - count, count)  # within its batch
        interval = (np.array(self.until) - np.array(self.since)) / np.maximum(count - 1, 1)
        times = np.repeat(self.since, count) + index * np.repeat(interval, count)
        steps = np.repeat(self.first, count) + index * np.repeat(self.every, count)
        series.append(_floats(steps), times, _floats(self.values))


def _up_to(step: int, series: Series) -> Series:
    size = int(np.searchsorted(series.steps, step, side="right"))
    if size == len(series):
        return series
    kept = Series()
    kept.append(series.steps[:size], series.times[:size], series.values[:size])
    return kept


def _floats(numbers: object) -> Floats:
    return np.array(numbers, dtype=np.float64)  # None becomes NaN


# -- the result of a run --------------------------------------------------------------------------


def best_validation(run_series: RunSeries) -> tuple[int, float] | None:
    """Return the step and the value of the smallest validation loss; None without a finite one."""
    validations = run_series.metrics.get(VALIDATION_LOSS)
    if validations is None or (smallest := validations.min) is None:
        return None
    return int(validations.steps[np.argmax(validations.values == smallest)]), smallest


def loss_of(run_series: RunSeries, facts: RunFacts) -> RunLoss | None:
    """Return the loss by which the run is compared with others: the same that lists of runs show."""
    kept = facts.checkpoint.kept if facts.checkpoint is not None else None
    losses = run_series.metrics.get(LOSS)
    newest = losses.values[-RECENT:].tolist() if losses is not None else []
    return run_loss(best_validation(run_series), recent_mean(newest), newest[-1] if newest else None, kept)
