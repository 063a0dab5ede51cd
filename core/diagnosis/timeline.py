"""Tell what happened in a run, one line a thing, from its events; turn its measurements into the numbers of epochs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple

from core.devices.names import list_labels
from core.diagnosis.start_phases import StartAccount
from core.language import join_sentences, tr, tr_noop
from core.runs.facts import RunFacts, RunState, state_info
from core.schema import event_kinds as kinds
from core.schema.event_kinds import RunProgress
from core.schema.events import Event, last_step
from core.schema.spec import RunSpec, changeable
from core.text import disk, duration, first_names, join_names, join_phrases

Values = Mapping[str, Sequence[float | None]]

LOSS, RATE, VALIDATION = "loss", "learning_rate", "val_"
SAMPLES_PER_S, STEPS_PER_S, WAITING = RATES = tr_noop("samples/s"), tr_noop("steps/s"), tr_noop("waiting for data %")
"""How fast a run trained, and what kept it waiting, which are drawn beside its metrics."""


class EpochLine(NamedTuple):
    """What is known of an epoch. Its text is made when it is shown: there may be a million epochs."""

    time: float
    """Unix seconds."""
    epoch: int
    """Its number, from 1; of a script that counts steps, 0."""
    step: int
    """The last step before it was measured."""
    loss: float | None = None
    """The mean over its steps; None if some of them are not known."""
    metrics: Mapping[str, float] | None = None
    """The means of the other metrics over its measured steps, by name; None where the loss is None."""
    values: Mapping[str, float | None] | None = None
    """The means of its validation by name."""
    of: float | None = None
    """The number of epochs that a script reports."""

    @property
    def text(self) -> str:
        loss = [] if self.loss is None else [tr("loss {value}", value=_number(self.loss))]
        numbers = join_phrases([*loss, *_numbers(self.metrics or {}), *_numbers(self.values or {})])
        if self.of is not None:
            done = tr("Epoch {epoch} of {epochs:g} is done", epoch=self.epoch, epochs=self.of)
            return tr("{what}: {numbers}", what=done, numbers=numbers) if numbers else done
        which = tr("Epoch {epoch}", epoch=self.epoch) if self.epoch else tr("Step {step}", step=_count(self.step))
        return tr("{what}: {numbers}", what=which, numbers=numbers) if numbers else which


class EpochNumbers:
    """Follows one run. An epoch has its line once its validation is known, or the next step."""

    def __init__(self) -> None:
        self.steps_per_epoch: int | None = None
        """None until it is known, and for scripts."""
        self._sum, self._count = 0.0, 0
        self._metrics: dict[int, dict[str, tuple[float, int]]] = {}
        """The other metrics' sums over the steps of epochs that are not done, and their counts, by epoch and name."""
        self._at = 0
        """The last step whose loss was added."""
        self._open: EpochLine | None = None
        """The last epoch whose steps are done, while its validation may follow."""
        self._loss: float | None = None
        self._epochs_reported = 0

    def fold(self, event: Event) -> list[EpochLine]:
        """Add an event of the kind `metrics`, and return the lines that it completes."""
        values: Values = event["values"]
        if len(values) == 1 and LOSS in values:  # as nearly all events are
            return self._add_losses(event, values[LOSS])
        if self.steps_per_epoch:
            self._add_metrics(event, self.steps_per_epoch)
        lines = self._add_losses(event, values[LOSS]) if LOSS in values else []
        validated = {name: series for name, series in values.items() if name.startswith(VALIDATION)}
        return lines + self._add_validation(event, validated) if validated else lines

    def fold_progress(self, progress: RunProgress) -> list[EpochLine]:
        """Add a script's report of its progress, and return a line if it counts epochs and one more is done."""
        if progress.unit != "epochs" or int(progress.done) <= self._epochs_reported:
            return []
        self._epochs_reported = int(progress.done)
        return [EpochLine(progress.time, self._epochs_reported, self._at, self._loss, of=progress.total)]

    def finish(self) -> list[EpochLine]:
        """Return the line of an epoch whose validation does not follow."""
        found, self._open = self._open, None
        return [found] if found is not None else []

    def rewind(self, step: int) -> None:
        """Continue after an earlier step, or after the last one."""
        if step != self._at:  # the sum has losses that are void now
            self._sum, self._count, self._at = 0.0, 0, step
            self._metrics.clear()

    def restart(self) -> None:
        """Forget a script's reports: it starts over."""
        self._epochs_reported, self._loss = 0, None

    def _add_losses(self, event: Event, losses: Sequence[float | None]) -> list[EpochLine]:
        self._loss = self._loss if losses[-1] is None else losses[-1]
        lines: list[EpochLine] = []
        at, used, per_epoch = event["first"], 0, self.steps_per_epoch
        while per_epoch and used < len(losses):
            lines += self.finish()  # the next epoch has begun
            end = -(-at // per_epoch) * per_epoch
            part = losses[used : used + end - at + 1]
            total, count = _sum(part)
            self._sum += total
            self._count += count
            used, at = used + len(part), at + len(part)
            if at > end:
                whole = self._count == per_epoch  # else some are missing, or were measured before a resume
                mean = self._sum / per_epoch if whole else None
                sums = self._metrics.pop(end // per_epoch, {})  # of the other metrics over the measured steps
                means = {name: total / count for name, (total, count) in sums.items()} if whole else None
                self._open = EpochLine(_time_of(event, used, len(losses)), end // per_epoch, end, mean, means)
                self._sum, self._count = 0.0, 0
        self._at = event["first"] + len(losses) - 1
        return lines

    def _add_metrics(self, event: Event, per_epoch: int) -> None:
        """Add what was measured on training batches, other than the loss. It may come before the losses."""
        first, every = event["first"], event.get("every", 1)
        for name, series in event["values"].items():
            if name in {LOSS, RATE} or name.startswith(VALIDATION):
                continue
            for at, value in enumerate(series):
                if value is not None:
                    sums = self._metrics.setdefault(-(-(first + at * every) // per_epoch), {})
                    total, count = sums.get(name, (0.0, 0))
                    sums[name] = total + value, count + 1

    def _add_validation(self, event: Event, values: Values) -> list[EpochLine]:
        """Return the line of the epoch that ended at this step, or one of its own if there is none."""
        step = last_step(event)
        last = {name: series[-1] for name, series in values.items() if series}
        opened = self._open
        if opened is not None and opened.step == step:
            self._open = None
            return [opened._replace(time=event["t"], values=last)]
        epoch = -(-step // self.steps_per_epoch) if self.steps_per_epoch else 0
        return [*self.finish(), EpochLine(event["t"], epoch, step, values=last)]


def _sum(losses: Sequence[float | None]) -> tuple[float, int]:
    """Return the sum and the number of the losses that are known."""
    try:
        return sum(losses), len(losses)  # type: ignore[arg-type]  # almost always all are numbers
    except TypeError:
        known = [loss for loss in losses if loss is not None]
        return sum(known), len(known)


def _time_of(event: Event, used: int, count: int) -> float:
    """Return when the `used`-th of the event's steps ended; they count as evenly spaced."""
    until: float = event["t"]
    since: float = event.get("since", until)
    return until if used == count else since + (until - since) * (used - 1) / (count - 1)


def _numbers(values: Mapping[str, float | None]) -> list[str]:
    """Return `val. loss 0.55`, `val. accuracy 0.79`."""
    return [f"{metric_title(name)} {_number(value)}" for name, value in values.items()]


def metric_title(name: str) -> str:
    """Return `val. loss` for `val_loss`: a loss or a rate in the language in use, other metrics as they are named."""
    if not name.startswith(VALIDATION):
        return tr(name) if name in {LOSS, *RATES} else name.replace("_", " ")
    metric = name.removeprefix(VALIDATION).replace("_", " ")
    return tr("val. loss") if metric == LOSS else tr("val. {metric}", metric=metric)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def change_words(change: kinds.SettingChange) -> str:
    """Return `Epochs: 10 → 20`."""
    row = changeable(change.name)
    return tr("{title}: {old} → {new}", title=tr(row.title), old=row.words(change.old), new=row.words(change.new))


MAX_ENTRIES = 10_000
"""Epochs, and as many other entries, that are kept unless more are wanted."""
MAX_TEXT = 4_000
"""Characters of a text that are kept."""
ENDINGS = {RunState.FINISHED: tr_noop("Finished."), RunState.STOPPED: tr_noop("Stopped.")}
LOST = tr_noop("The run was lost: its supervisor exited unexpectedly.")
REQUESTS = {"pause": tr_noop("A pause was requested."), "save": tr_noop("A checkpoint was requested.")}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One thing that happened."""

    time: float
    """Unix seconds."""
    text: str
    tone: str = ""
    """`warn` or `bad`; the empty string for what is as it should be."""
    is_epoch: bool = False
    """Whether it has the numbers of an epoch, of which a run may have very many."""


class Timeline:
    """What happened in one run, extended by `fold`. Unknown events are ignored, and so are damaged ones."""

    def __init__(self, spec: RunSpec | None, framework: str, *, max_entries: int | None = MAX_ENTRIES) -> None:
        """`spec`: None if it cannot be read. `framework`: its title, or the empty string for a script.

        `max_entries`: how many are kept, the newest ones; None for all.
        """
        # Kept apart, so that many epochs do not push out how the run began.
        # With each is kept how many came before it.
        self._epoch_lines: deque[tuple[int, EpochLine]] = deque(maxlen=max_entries)
        self._others: deque[tuple[int, TimelineEntry]] = deque(maxlen=max_entries)
        self.count = 0
        """Number of entries so far, including those that are not kept."""
        self._name, self._is_script = ("", False) if spec is None else (spec.name, spec.script is not None)
        self._state = RunState.CREATED
        self._start = StartAccount(spec, framework)
        self._step = 0
        self._training_ended: float | None = None
        """When training ended, until that is an entry: the last steps of a script are read after its end."""
        self._epochs = EpochNumbers()
        self._releases: dict[str, kinds.Release] = {}
        self._is_lost = False

    def fold(self, events: Iterable[Event]) -> None:
        """Add events, ordered by time."""
        for event in events:
            reader = self._READERS.get(event["kind"])
            if reader is None:
                continue
            try:
                reader(self, event if event["kind"] == kinds.Metrics.kind else kinds.read(event))
            except (KeyError, TypeError, ValueError, OverflowError):
                continue  # the facts of the run report it

    def follow(self, facts: RunFacts) -> None:
        """Add that the run was lost, which no event says. `facts`: those after the events that were folded."""
        if facts.state is RunState.LOST and not self._is_lost:
            self._end_start()
            self._is_lost = True
            self._add(facts.ended or facts.latest, tr(facts.error) if facts.error else tr(LOST), "bad")

    @property
    def entries(self) -> list[TimelineEntry]:
        """All entries that are kept, in order."""
        return self.newest(self.count)

    def newest(self, count: int) -> list[TimelineEntry]:
        """Return those of the last `count` entries that are kept, in order."""
        first = self.count - count
        others = list(takewhile(lambda each: each[0] >= first, reversed(self._others)))
        epochs = [
            (number, TimelineEntry(time=line.time, text=line.text[:MAX_TEXT], is_epoch=True))
            for number, line in takewhile(lambda each: each[0] >= first, reversed(self._epoch_lines))
        ]
        return [entry for _, entry in merge(reversed(others), reversed(epochs), key=lambda each: each[0])]

    def _add(self, time: float, text: str, tone: str = "") -> None:
        self._others.append((self.count, TimelineEntry(time=time, text=text[:MAX_TEXT], tone=tone)))
        self.count += 1

    # -- start -----------------------------------------------------------------------------------

    def _queued(self, event: kinds.Queued) -> None:
        """End the part before, if a run that was training is queued again, as after a reboot: no end was recorded."""
        if self._start.number and not self._is_lost and state_info(self._state).live:
            self._end_start()
            self._add(event.time, tr(LOST), "bad")
            self._state = RunState.LOST

    def _supervisor(self, event: kinds.SupervisorStart) -> None:
        self._queued(event)
        self._start.begin(event.time)
        self._is_lost, self._releases, self._state = False, {}, RunState.CREATED
        self._epochs.restart()

    def _phase(self, phase: kinds.Phase) -> None:
        self._start.add_phase(phase)
        if phase.rank == 0:
            self._add_start(phase.time)

    def _add_start(self, time: float) -> None:
        """Add that the run was started or resumed, once its processes are known."""
        if opening := self._start.opening(time):
            self._add(*opening)

    def _end_start(self, first_step: float | None = None) -> None:
        """Add how long the parts of the start took. `first_step`: when the first step was done; None without one."""
        if parts := self._start.end(first_step):
            self._add(*parts)

    # -- training ----------------------------------------------------------------------------------

    def _plan(self, plan: kinds.Plan) -> None:
        self._epochs.steps_per_epoch = plan.steps_per_epoch

    def _metrics(self, event: Event) -> None:
        if self._start.is_open:
            self._add_start(event["t"])
            self._end_start(event.get("since", event["t"]))
        self._step = max(self._step, last_step(event))
        if lines := self._epochs.fold(event):
            self._add_lines(lines)

    def _add_lines(self, lines: Sequence[EpochLine]) -> None:
        self._epoch_lines.extend(enumerate(lines, self.count))
        self.count += len(lines)

    def _rewind(self, rewind: kinds.Rewind) -> None:
        self._add_start(rewind.time)
        self._end_epoch()
        self._step = rewind.step
        self._epochs.rewind(self._step)
        after = tr("Training continues after step {step}.", step=_count(self._step))
        self._add(rewind.time, after if self._step else tr("Training starts over."))

    def _checkpoint(self, written: kinds.Checkpoint) -> None:
        self._end_epoch()
        size = disk(written.size_bytes) if written.size_bytes is not None else ""
        loss = "" if written.value is None else f"{metric_title(written.metric)} {_number(written.value)}"
        best = tr("best so far") if loss and written.value == written.lowest else ""
        if written.lowest is not None and (written.kept is None or written.kept > written.lowest):
            best = tr("best was {loss} at epoch {epoch}, not kept", loss=_number(written.lowest),
                      epoch=written.lowest_epoch or "?")
        result = f"{loss} ({best})" if loss and best else loss or best
        parts = [tr("step {step}", step=_count(written.step)), size, result]
        what = join_phrases(part for part in parts if part)
        self._add(written.time, tr("Checkpoint written: {what}.", what=what))

    def _change(self, change: kinds.SettingChange) -> None:
        text = tr("{change}, after step {step}.", change=change_words(change), step=_count(change.step))
        self._add(change.time, text)

    def _trace(self, trace: kinds.Trace) -> None:
        written = tr("Trace of {steps} steps of rank {rank} written: {file}.", steps=trace.steps, rank=trace.rank,
                     file=trace.file)
        self._add(trace.time, tr(trace.why) or written, "warn" if trace.why else "")

    def _end_epoch(self) -> None:
        self._add_lines(self._epochs.finish())

    # -- what a user should know ---------------------------------------------------------------------

    def _warn(self, time: float, text: str) -> None:
        self._add_start(time)
        self._add(time, tr(text), "warn")

    def _moved(self, moved: kinds.Moved) -> None:
        self._start.labels = {each: self._start.labels.get(each, each) for each in moved.devices}
        self._add(moved.time, tr(moved.text))

    def _stall(self, stall: kinds.Stall) -> None:
        if stall.text:
            self._add(stall.time, tr(stall.text), "warn")
        else:
            self._add(stall.time, tr("Steps are reported again."))

    def _slowed(self, slowed: kinds.Slowed) -> None:
        if slowed.sentence:
            self._add(slowed.time, tr(slowed.sentence), "warn")
        elif slowed.seconds is not None:
            device = slowed.device_id
            label, lasted = self._start.labels.get(device, device), duration(slowed.seconds)
            over = tr_noop("{device} is no longer slowed down. It was slowed down for {seconds}.")
            self._add(slowed.time, tr(over, device=label, seconds=lasted))

    def _stop_step(self, step: kinds.StopStep) -> None:
        done = tr("{signal} was sent to the processes.", signal=step.name)
        if step.name == "asked":
            done = tr("The processes were asked to stop.")
        grace = None if step.grace_s is None else tr("They have {seconds:g} s.", seconds=step.grace_s)
        self._add(step.time, join_sentences([done, grace]))

    def _ended(self, ended: kinds.Ended) -> None:
        names = [
            tr("{name} (pid {pid})", name=each.name, pid=each.pid) if each.name else f"pid {each.pid}"
            for each in ended.processes
        ]
        processes = join_names(first_names(names))
        self._add(ended.time, tr("Left over and ended: {processes}.", processes=processes), "warn")

    # -- states --------------------------------------------------------------------------------------

    def _enter(self, change: kinds.StateChange) -> None:
        self._state = state = RunState(change.state)
        if state in {RunState.STARTING, RunState.QUEUED} and not self.count:
            self._add(change.time, tr("Created: {name}.", name=self._name) if self._name else tr("Created."))
        if state is RunState.QUEUED:
            self._add(change.time, tr("Queued: the run waits for its devices."))
        elif state is RunState.RUNNING:
            self._add_start(change.time)
        elif state is RunState.RELEASING:
            self._add_start(change.time)
            self._end_start()
            self._end_epoch()
            self._training_ended = change.time
            if not self._is_script:
                self._add_end_of_training()
        elif state_info(state).over:
            self._conclude(change)

    def _add_end_of_training(self) -> None:
        if self._training_ended is not None:
            trained = tr("Training ended at step {step}.", step=_count(self._step))
            self._add(self._training_ended, trained if self._step else tr("The processes have ended."))
            self._training_ended = None

    def _conclude(self, change: kinds.StateChange) -> None:
        self._end_start()
        self._add_end_of_training()
        self._add_release(change.time)
        if self._state is RunState.PAUSED:
            self._add(change.time, tr("Paused at step {step}. The devices are free.", step=_count(self._step)))
        elif self._state in {RunState.FAILED, RunState.HEAD_LOST}:
            error = tr(change.error or "") or tr("Training ended with an error.")
            for device, label in self._start.labels.items():
                error = error.replace(device, label)
            self._add(change.time, error, "bad")
        else:
            self._add(change.time, tr(ENDINGS[self._state]))
            if change.error:  # of a queued run that was not started
                self._add(change.time, tr(change.error), "warn")

    def _release(self, found: kinds.Release) -> None:
        self._releases[found.device_id] = found
        if found.verdict is not kinds.Verdict.RELEASED:
            tone = "bad" if found.verdict is kinds.Verdict.HELD_BY_RUN else "warn"
            self._add(found.time, tr(found.sentence), tone)

    def _add_release(self, time: float) -> None:
        """Add which devices have their memory back."""
        found = [each for each in self._releases.values() if each.verdict is kinds.Verdict.RELEASED]
        if found:
            where = list_labels([self._start.labels.get(each.device_id, each.device_id) for each in found])
            after = duration(max(each.seconds for each in found))
            text = tr("All memory on {devices} was released {seconds} after the end.", devices=where, seconds=after)
            self._add(time, text)
        self._releases = {}

    _READERS: ClassVar[dict[str, Callable[[Timeline, Any], None]]] = {
        kinds.SupervisorStart.kind: _supervisor,
        kinds.Queued.kind: _queued,
        kinds.StateChange.kind: _enter,
        kinds.RunDevice.kind: lambda self, device: self._start.add_device(device),
        kinds.WorkerStart.kind: lambda self, worker: self._start.add_worker(worker),
        kinds.Phase.kind: _phase,
        kinds.Plan.kind: _plan,
        kinds.Metrics.kind: _metrics,
        kinds.RunProgress.kind: lambda self, progress: self._add_lines(self._epochs.fold_progress(progress)),
        kinds.Rewind.kind: _rewind,
        kinds.Checkpoint.kind: _checkpoint,
        kinds.SettingChange.kind: _change,
        kinds.Trace.kind: _trace,
        kinds.Done.kind: lambda self, _: self._end_epoch(),
        kinds.Notice.kind: lambda self, notice: self._warn(notice.time, notice.text),
        kinds.Moved.kind: _moved,
        kinds.NotFinite.kind: lambda self, notice: self._warn(notice.time, notice.text),
        kinds.UntickedDeviceUse.kind: lambda self, use: self._warn(use.time, use.sentence),
        kinds.Stall.kind: _stall,
        kinds.Slowed.kind: _slowed,
        kinds.DeviceFault.kind: lambda self, fault: self._warn(fault.time, fault.sentence),
        kinds.Requested.kind: lambda self, request: self._add(request.time, tr(REQUESTS[request.asked])),
        kinds.StopStep.kind: _stop_step,
        kinds.Ended.kind: _ended,
        kinds.Release.kind: _release,
    }
    """By kind of event. `_metrics` takes events as they are."""


def _count(number: int) -> str:
    """Return a number with thin spaces between thousands."""
    return f"{number:,}".replace(",", "\u2009")
