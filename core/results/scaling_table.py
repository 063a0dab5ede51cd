"""The scaling table: throughput, speed-up, efficiency and memory of its runs, and whether their curves are the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core.arrays import np
from core.catalog.strategies import strategy_of
from core.devices.names import shown_name
from core.errors import RunError
from core.history.summary import LOSS, VALIDATION_LOSS, device_text
from core.language import tr, tr_plural
from core.results.comparison import statistic_of
from core.results.measured_run import MeasuredRun, Statistic, Throughput, highest, peak_memory, read_run, throughput
from core.results.scaling_record import PER_DEVICE, ScalingRecord
from core.runs.directory import workload_text
from core.runs.facts import RunState, state_info, worst
from core.schema.event_kinds import Verdict
from core.schema.settings import Training
from core.schema.spec import RunSpec
from core.series.min_max_tree import Floats
from core.series.series import Series
from core.table import Column, Table
from core.text import BYTES_PER_GB

Json = dict[str, Any]
TOLERANCES = {"pytorch": 1e-5, "tensorflow": 1e-4, "keras": 1e-4}
"""By framework, the largest relative difference of two values of the same curve: those of `docs/recipes.md`."""
CURVES = (LOSS, VALIDATION_LOSS)
MISSING = "missing"
"""The state of a training of which there is no run, or whose run was removed."""
MIN_MEASURED_S = 5.0
"""Seconds that a run must train after its first epoch. A notice says that a shorter one measures little."""
FLOAT32 = "float32"
"""The precision in which curves are compared: the tolerances are those of its rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveCheck:
    """How far the curve of a run is from that of another one."""

    steps: int
    """The steps of the shorter one."""
    largest: float | None
    """The largest relative difference of two values; infinite where only one of them is finite, None without values."""
    first_step: int | None
    """The first step at which they differ by more than the tolerance, or that only one of them has; None: nowhere."""

    @property
    def same(self) -> bool:
        """Whether the curves are the same within the tolerance."""
        return self.first_step is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One training of a row."""

    state: str
    """A value of `RunState`, or `MISSING`."""
    run_id: str | None
    error: str | None
    """Why it has failed, in a sentence."""
    run: MeasuredRun | None
    """None unless it has finished."""
    rate: Throughput | None
    """Without the first epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow:
    """The trainings on one number of devices."""

    spec: RunSpec
    trained: tuple[Trained, ...]
    """One for each repeat."""
    samples_per_s: Statistic | None
    """Without the first epoch; None if no run has finished, as for the next two."""
    speed_up: Statistic | None
    """Over one device. The spread is that of both rows."""
    check: CurveCheck | None
    """The comparison with the curve of one device, of the run that is furthest from it; None if there is none."""

    @property
    def devices(self) -> int:
        return len(self.spec.devices)

    @property
    def efficiency(self) -> float | None:
        """The speed-up as a part of the number of devices."""
        return self.speed_up.mean / self.devices if self.speed_up else None

    @property
    def finished(self) -> list[MeasuredRun]:
        return [each.run for each in self.trained if each.run is not None]

    @property
    def peaks(self) -> dict[str, float]:
        """The peak memory in bytes by device id, over all finished runs."""
        return highest(peak_memory(run.series.memory) for run in self.finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingTable:
    """The rows of a scaling table, and what a reader of the numbers should know."""

    record: ScalingRecord
    rows: tuple[ScalingRow, ...]
    notices: tuple[str, ...]

    @property
    def states(self) -> list[str]:
        return [each.state for row in self.rows for each in row.trained]


def read_table(record: ScalingRecord) -> ScalingTable:
    """Read the runs of a scaling table. A run that cannot be read counts as lost, with the reason."""
    trained = [
        tuple(_trained(record, spec, repeat) for repeat in range(1, record.repeats + 1)) for spec in record.specs
    ]
    rates = [
        statistic_of([each.rate.samples_per_s for each in own if each.rate and each.rate.samples_per_s])
        for own in trained
    ]
    reference = next((each.run for each in trained[0] if each.run is not None), None)
    compares = _why_not_compared(record) is None
    rows = tuple(
        ScalingRow(
            spec=spec, trained=own, samples_per_s=rate,
            speed_up=_speed_up(rate, rates[0], alone=spec is record.specs[0]),
            check=_check(own, reference, TOLERANCES[spec.framework]) if compares else None,
        )
        for spec, own, rate in zip(record.specs, trained, rates, strict=True)
    )
    return ScalingTable(record=record, rows=rows, notices=tuple(_notices(record, rows)))


def _trained(record: ScalingRecord, spec: RunSpec, repeat: int) -> Trained:
    run_dir = record.run_of(len(spec.devices), repeat)
    if run_dir is None:
        return Trained(state=MISSING, run_id=None, error=None, run=None, rate=None)
    try:
        run = read_run(run_dir)
    except (RunError, ValueError) as error:
        return Trained(state=RunState.LOST.value, run_id=run_dir.name, error=str(error), run=None, rate=None)
    finished = run.facts.state is RunState.FINISHED
    return Trained(
        state=run.facts.state.value, run_id=run.id, error=run.facts.error, run=run if finished else None,
        rate=throughput(run, after=run.plan.steps_per_epoch) if finished and run.plan else None,
    )


def _speed_up(rate: Statistic | None, single: Statistic | None, *, alone: bool) -> Statistic | None:
    """Return how much faster it is than one device. `alone`: it is one device."""
    if rate is None or single is None:
        return None
    if alone:
        return Statistic(mean=1.0, deviation=None, count=rate.count)
    ratio = rate.mean / single.mean
    parts = [each.deviation / each.mean for each in (rate, single) if each.deviation is not None]
    return Statistic(mean=ratio, deviation=ratio * math.hypot(*parts) if parts else None, count=rate.count)


def _check(trained: Iterable[Trained], reference: MeasuredRun | None, tolerance: float) -> CurveCheck | None:
    runs = [each.run for each in trained if each.run is not None]
    found = [_compare_curves(run, reference, tolerance) for run in runs] if reference is not None else []
    known = [each for each in found if each is not None]
    return min(known, key=lambda each: (each.first_step or math.inf, -(each.largest or 0.0)), default=None)


def _why_not_compared(record: ScalingRecord) -> str | None:
    """Return why the curves differ by design, in a sentence; None if they should be the same."""
    several = record.specs[-1]
    if record.batch == PER_DEVICE:
        return tr(
            "With a fixed batch per device the global batch grows with the devices. The curves differ by design and "
            "are not compared."
        )
    if strategy_of(several).is_asynchronous:
        return tr("Strategy {strategy} is asynchronous. The curves differ by design and are not compared.",
                  strategy=several.strategy)
    if several.training.gradient_compression != Training().gradient_compression:
        return tr(
            "The gradients are compressed between several devices ({compression}). The curves differ by design and "
            "are not compared.",
            compression=several.training.gradient_compression,
        )
    if several.training.precision != FLOAT32:
        return tr(
            "Curves are compared in float32 only. This training computes in {precision}, whose rounding alone makes "
            "them differ.",
            precision=several.training.precision,
        )
    return None


# -- whether the curves are the same -------------------------------------------------------------


def _compare_curves(run: MeasuredRun, reference: MeasuredRun, tolerance: float) -> CurveCheck | None:
    """Compare the curve of a run with that of another one; None unless both have one."""
    ours, theirs = run.series.metrics, reference.series.metrics
    if not all(len(each.get(LOSS, ())) for each in (ours, theirs)):
        return None
    firsts, largest = [], []
    for name in CURVES:
        if name in ours and name in theirs:
            steps, values = _relative_differences(ours[name], theirs[name])
            largest += [float(values.max())] if len(values) else []
            firsts += steps[values > tolerance][:1].tolist()
        one, other = (metrics.get(name, Series()).steps for metrics in (ours, theirs))
        firsts += np.setxor1d(one, other)[:1].tolist()  # the first step of which only one of them has a value
    return CurveCheck(
        steps=min(int(each[LOSS].steps[-1]) for each in (ours, theirs)),
        largest=max(largest, default=None),
        first_step=int(min(firsts)) if firsts else None,
    )


def _relative_differences(one: Series, other: Series) -> tuple[Floats, Floats]:
    """Return the steps that both have, and the relative difference of the values there: 0 where neither is finite."""
    steps, at, there = np.intersect1d(one.steps, other.steps, return_indices=True)
    ours, theirs = one.values[at], other.values[there]
    equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.abs(ours - theirs) / np.abs(theirs)
    values[~np.isfinite(values)] = np.inf
    values[equal] = 0.0
    return steps, values


# -- what a reader of the numbers should know ----------------------------------------------------


def _notices(record: ScalingRecord, rows: Sequence[ScalingRow]) -> Iterator[str]:
    for row in rows:
        for each in row.trained:
            if each.state in {RunState.FAILED.value, RunState.LOST.value}:
                reason = tr(each.error).partition("\n")[0] if each.error else tr("The reason is not known.")
                yield tr_plural("Run {run} on {count} device has no result. {reason}",
                                "Run {run} on {count} devices has no result. {reason}",
                                row.devices, run=each.run_id, reason=reason)
    if rows[0].samples_per_s is None and any(row.samples_per_s for row in rows):
        yield tr("No run on one device has finished, so there is no speed-up and no efficiency.")
    if why := _why_not_compared(record):
        yield why
    else:
        for row in rows:
            if row.check is not None and not row.check.same:
                yield _difference(row, row.check)
    yield from _doubts(rows)


def _difference(row: ScalingRow, check: CurveCheck) -> str:
    return tr_plural(
        "On {count} device the curve leaves that of the first run at step {step} of {steps} (largest relative "
        "difference {largest}, allowed {allowed}). Rounding adds up in long trainings, and batch normalisation and "
        "dropout differ by design: see docs/recipes.md.",
        "On {count} devices the curve leaves that of one device at step {step} of {steps} (largest relative "
        "difference {largest}, allowed {allowed}). Rounding adds up in long trainings, and batch normalisation and "
        "dropout differ by design: see docs/recipes.md.",
        row.devices, step=check.first_step, steps=check.steps,
        largest="-" if check.largest is None else f"{check.largest:.2g}",
        allowed=f"{TOLERANCES[row.spec.framework]:g}",
    )


def _doubts(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield what makes the numbers less certain than they look."""
    runs = [run for row in rows for run in row.finished]
    seconds = [each.rate.seconds for row in rows for each in row.trained if each.rate]
    if seconds and min(seconds) < MIN_MEASURED_S:
        yield tr("The shortest run trained for {seconds:.2g} s after its first epoch, which is little to measure a "
                 "throughput. Give more epochs.", seconds=min(seconds))
    for run in runs:
        if run.facts.starts > 1:
            yield tr("Run {run} was resumed; its throughput includes another start.", run=run.id)
        release = worst(run.facts.releases.values())
        if release is not None and release.verdict not in {Verdict.RELEASED, Verdict.CANNOT_BE_JUDGED}:
            yield tr("After run {run}: {finding}", run=run.id, finding=tr(release.sentence))
    texts = {workload_text(run.dir, run.spec, run.facts.started, foreign=run.owner is not None) for run in runs}
    if len(texts - {None}) > 1:
        yield tr("The recipe was changed between these runs, so their numbers do not belong together.")
    kinds = {name: str(fields.get("name")) for run in runs for name, fields in run.facts.devices.items()}
    if len(set(kinds.values())) > 1:
        devices = {name: {"name": kind} for name, kind in kinds.items()}
        yield tr("The devices differ: {devices}. Their number alone does not explain the throughput.",
                 devices=shown_name(device_text(devices, devices)))


# -- as text -------------------------------------------------------------------------------------

DIGITS = 3
"""Digits of samples per second that are shown, but all of a whole number."""


def text_table(table: ScalingTable, strategy: Callable[[RunSpec], str] | None = None) -> Table[ScalingRow]:
    """Return a scaling table as text. `strategy`: returns how people read a strategy; by default its name.

    In CSV, `..._deviation` is the standard deviation over the repeats, and `peak_memory_bytes` that of the fullest
    device.
    """
    return Table((
        Column("devices", lambda row: row.devices, tr("Devices")),
        Column("device_ids", lambda row: row.spec.devices, None),
        Column("strategy", lambda row: row.spec.strategy, tr("Strategy"),
               (lambda row: strategy(row.spec)) if strategy is not None else None),
        Column("batch_size", lambda row: row.spec.training.batch_size, tr("Batch")),
        Column("runs", lambda row: [each.run_id or "-" for each in row.trained], None),
        Column("states", lambda row: [each.state for each in row.trained], None),
        *_statistic_columns("samples_per_s", tr("Samples/s"), lambda row: row.samples_per_s, _rate),
        *_statistic_columns("speed_up", tr("Speed-up"), lambda row: row.speed_up, lambda each: _spread(each, ".2f")),
        Column("efficiency", lambda row: row.efficiency, tr("Efficiency"),
               lambda row: None if row.efficiency is None else f"{100 * row.efficiency:.0f} %"),
        Column("peak", title=tr("Peak GB"), text=_peaks),
        Column("same_curve", lambda row: row.check and str(row.check.same).lower(), tr("Curve"), _curve),
        Column("first_different_step", lambda row: row.check and row.check.first_step, None),
        Column("peak_memory_bytes", lambda row: max(row.peaks.values(), default=None), None),
        Column("peak_memory_bytes_by_device",
               lambda row: [f"{name}={peak:.0f}" for name, peak in row.peaks.items()], None),
        Column("state", title=tr("State"), text=_state),
    ), table.rows, table.notices)


def _statistic_columns(
    name: str, title: str, of: Callable[[ScalingRow], Statistic | None], text: Callable[[Statistic | None], str | None]
) -> tuple[Column[ScalingRow], ...]:
    return (
        Column(name, lambda row: (found := of(row)) and found.mean, title, lambda row: text(of(row))),
        Column(f"{name}_deviation", lambda row: (found := of(row)) and found.deviation, None),
    )


def _rate(statistic: Statistic | None) -> str | None:
    if statistic is None or not statistic.mean > 0:
        return _spread(statistic, ".3g")
    places = max(0, DIGITS - 1 - math.floor(math.log10(statistic.mean)))
    return _spread(statistic, f".{places}f")  # the deviation has as many places as the mean


def _spread(statistic: Statistic | None, form: str) -> str | None:
    """Return `1.94`, of several runs `1.94 ± 0.02`."""
    if statistic is None:
        return None
    text = format(statistic.mean, form)
    return text if statistic.deviation is None else f"{text} ± {statistic.deviation:{form}}"


def _peaks(row: ScalingRow) -> str | None:
    """Return the peak memory per device: `1.25`, or `1.10 to 1.25` where the devices differ."""
    found = [f"{each / BYTES_PER_GB:.2f}" for each in sorted(row.peaks.values())]
    if not found:
        return None
    return found[0] if found[0] == found[-1] else tr("{first} to {last}", first=found[0], last=found[-1])


def _curve(row: ScalingRow) -> str | None:
    """Return `same`, `another`, or `same to step 812` where they part after it; None if they were not compared."""
    if row.check is None:
        return None
    first = row.check.first_step
    if first is None:
        return tr("same")
    return tr("same to step {step}", step=first - 1) if first > 1 else tr("another")


def _state(row: ScalingRow) -> str:
    """Return the state of the runs: `finished`, or `finished (2 of 3), failed (1 of 3)`."""
    states = [each.state for each in row.trained]
    parts = []
    for state in dict.fromkeys(states):
        label = tr("not trained") if state == MISSING else tr(state_info(RunState(state)).label).lower()
        count = states.count(state)
        whole = count == len(states)
        parts.append(label if whole else tr("{state} ({count} of {all})", state=label, count=count, all=len(states)))
    return ", ".join(parts)


# -- as JSON -------------------------------------------------------------------------------------


def to_json(table: ScalingTable) -> Json:
    """Return the document that `scale --json` prints. Numbers that are not finite stay as they are."""
    record, first = table.record, table.record.specs[0]
    return {
        "name": record.name, "recipe": first.own_recipe.name, "framework": first.framework, "batch": record.batch,
        "repeats": record.repeats, "complete": all(state == RunState.FINISHED.value for state in table.states),
        "rows": [_row_to_json(row) for row in table.rows], "notices": list(table.notices),
    }


def _row_to_json(row: ScalingRow) -> Json:
    check, rate, speed_up = row.check, row.samples_per_s, row.speed_up
    return {
        "devices": row.devices, "device_ids": list(row.spec.devices), "strategy": row.spec.strategy,
        "batch_size": row.spec.training.batch_size, "runs": [each.run_id for each in row.trained],
        "states": [each.state for each in row.trained], "errors": [each.error for each in row.trained],
        "samples_per_s": rate.mean if rate else None, "speed_up": speed_up.mean if speed_up else None,
        "efficiency": row.efficiency,
        "spread": {"samples_per_s": rate.deviation if rate else None,
                   "speed_up": speed_up.deviation if speed_up else None},
        "n": rate.count if rate else 0,
        "same_curve": check and check.same,
        "curve": None if check is None else {
            "steps": check.steps, "largest_difference": check.largest, "first_different_step": check.first_step,
        },
        "peak_memory_bytes": row.peaks,
    }
