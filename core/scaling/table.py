"""The scaling table: throughput, speed-up, efficiency and memory of its runs, and whether their curves are the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.catalog.strategies import strategy_of
from core.comparison.measured_run import read_run
from core.comparison.results import peak_memory, throughput
from core.comparison.table import Statistic, statistic_of
from core.devices.names import shown_name
from core.errors import RunError
from core.history.setting_values import device_text
from core.language import tr, tr_plural, tr_stored
from core.runs.facts.states import RunState
from core.runs.facts.verdicts import Verdict, worst
from core.runs.workload_text import workload_text
from core.scaling.plan import PER_DEVICE
from core.scaling.same_curve import TOLERANCES, compare_curves
from core.schema.settings import Training

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from core.comparison.measured_run import MeasuredRun
    from core.comparison.results import Throughput
    from core.scaling.record import ScalingRecord
    from core.scaling.same_curve import CurveCheck
    from core.schema.spec import RunSpec

Json = dict[str, Any]
MISSING = "missing"
"""The state of a training of which there is no run, or whose run was removed."""
MIN_MEASURED_S = 5.0
"""Seconds that a run must train after its first epoch. A notice says that a shorter one measures little."""
FLOAT32 = "float32"
"""The precision in which curves are compared: the tolerances are those of its rounding."""


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
        """Their number."""
        return len(self.spec.devices)

    @property
    def efficiency(self) -> float | None:
        """The speed-up as a part of the number of devices."""
        return self.speed_up.mean / self.devices if self.speed_up else None

    @property
    def same_curve(self) -> bool | None:
        """None if the curves were not compared."""
        return self.check.same if self.check else None

    @property
    def finished(self) -> list[MeasuredRun]:
        """The runs that have finished."""
        return [each.run for each in self.trained if each.run is not None]

    @property
    def peaks(self) -> dict[str, float]:
        """The peak memory in bytes by device id, over all finished runs."""
        found: dict[str, float] = {}
        for run in self.finished:
            for device, peak in peak_memory(run.series.memory).items():
                found[device] = max(peak, found.get(device, 0.0))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingTable:
    """The rows of a scaling table, and what a reader of the numbers should know."""

    record: ScalingRecord
    rows: tuple[ScalingRow, ...]
    notices: tuple[str, ...]

    @property
    def states(self) -> list[str]:
        """The states of all trainings."""
        return [each.state for row in self.rows for each in row.trained]


def read_table(record: ScalingRecord) -> ScalingTable:
    """Read the runs of a scaling table. A run that cannot be read counts as lost, with the reason."""
    trained = [
        tuple(_trained(record, spec, repeat) for repeat in range(1, record.repeats + 1)) for spec in record.specs
    ]
    rates = [_statistic(each) for each in trained]
    reference = next((each.run for each in trained[0] if each.run is not None), None)
    compares = _why_not_compared(record) is None
    rows = tuple(
        ScalingRow(
            spec=spec, trained=own, samples_per_s=rate,
            speed_up=_speed_up(rate, rates[0], alone=spec is record.specs[0]),
            check=_check(own, reference, TOLERANCES[spec.framework]) if compares else None,
        )
        for spec, own, rate in zip(record.specs, trained, rates, strict=True)
    )  # fmt: skip
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
    )  # fmt: skip


def _statistic(trained: Iterable[Trained]) -> Statistic | None:
    return statistic_of([each.rate.samples_per_s for each in trained if each.rate and each.rate.samples_per_s])


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
    found = [compare_curves(run, reference, tolerance) for run in runs] if reference is not None else []
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
        return tr(
            "Strategy {strategy} is asynchronous. The curves differ by design and are not compared.",
            strategy=several.strategy,
        )
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


# -- what a reader of the numbers should know ----------------------------------------------------


def _notices(record: ScalingRecord, rows: Sequence[ScalingRow]) -> Iterator[str]:
    for row in rows:
        for each in row.trained:
            if each.state in {RunState.FAILED.value, RunState.LOST.value}:
                yield _failure(row, each)
    if rows[0].samples_per_s is None and any(row.samples_per_s for row in rows):
        yield tr("No run on one device has finished, so there is no speed-up and no efficiency.")
    if why := _why_not_compared(record):
        yield why
    else:
        for row in rows:
            if row.check is not None and not row.check.same:
                yield _difference(row)
    yield from _doubts(rows)


def _failure(row: ScalingRow, trained: Trained) -> str:
    reason = tr_stored(trained.error.splitlines()[0]) if trained.error else tr("The reason is not known.")
    return tr_plural(
        "Run {run} on {count} device has no result. {reason}",
        "Run {run} on {count} devices has no result. {reason}",
        row.devices,
        run=trained.run_id,
        reason=reason,
    )


def _difference(row: ScalingRow) -> str:
    assert row.check is not None
    largest = row.check.largest
    return tr_plural(
        "On {count} device the curve leaves that of the first run at step {step} of {steps} (largest relative "
        "difference {largest}, allowed {allowed}). Rounding adds up in long trainings, and batch normalisation and "
        "dropout differ by design: see docs/recipes.md.",
        "On {count} devices the curve leaves that of one device at step {step} of {steps} (largest relative "
        "difference {largest}, allowed {allowed}). Rounding adds up in long trainings, and batch normalisation and "
        "dropout differ by design: see docs/recipes.md.",
        row.devices,
        step=row.check.first_step,
        steps=row.check.steps,
        largest="-" if largest is None else f"{largest:.2g}",
        allowed=f"{TOLERANCES[row.spec.framework]:g}",
    )


def _doubts(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield what makes the numbers less certain than they look."""
    runs = [run for row in rows for run in row.finished]
    seconds = [each.rate.seconds for row in rows for each in row.trained if each.rate]
    if seconds and min(seconds) < MIN_MEASURED_S:
        yield tr(
            "The shortest run trained for {seconds:.2g} s after its first epoch, which is little to measure a "
            "throughput. Give more epochs.",
            seconds=min(seconds),
        )
    for run in runs:
        if run.facts.starts > 1:
            yield tr("Run {run} was resumed; its throughput includes another start.", run=run.id)
        release = worst(run.facts.releases.values())
        if release is not None and release.verdict not in {Verdict.RELEASED, Verdict.CANNOT_BE_JUDGED}:
            yield tr("After run {run}: {finding}", run=run.id, finding=tr_stored(release.sentence))
    texts = {workload_text(run.dir, run.spec, run.facts.started, foreign=run.owner is not None) for run in runs}
    if len(texts - {None}) > 1:
        yield tr("The recipe was changed between these runs, so their numbers do not belong together.")
    kinds = {name: str(fields.get("name")) for run in runs for name, fields in run.facts.devices.items()}
    if len(set(kinds.values())) > 1:
        devices = {name: {"name": kind} for name, kind in kinds.items()}
        yield tr("The devices differ: {devices}. Their number alone does not explain the throughput.",
                 devices=shown_name(device_text(devices, devices)))  # fmt: skip


# -- as JSON -------------------------------------------------------------------------------------


def to_json(table: ScalingTable) -> Json:
    """Return the document that `scale --json` prints. Numbers that are not finite stay as they are."""
    record, first = table.record, table.record.specs[0]
    return {
        "name": record.name,
        "recipe": first.own_recipe.name,
        "framework": first.framework,
        "batch": record.batch,
        "repeats": record.repeats,
        "complete": all(state == RunState.FINISHED.value for state in table.states),
        "rows": [_row_to_json(row) for row in table.rows],
        "notices": list(table.notices),
    }


def _row_to_json(row: ScalingRow) -> Json:
    check = row.check
    return {
        "devices": row.devices,
        "device_ids": list(row.spec.devices),
        "strategy": row.spec.strategy,
        "batch_size": row.spec.training.batch_size,
        "runs": [each.run_id for each in row.trained],
        "states": [each.state for each in row.trained],
        "errors": [each.error for each in row.trained],
        "samples_per_s": row.samples_per_s.mean if row.samples_per_s else None,
        "speed_up": row.speed_up.mean if row.speed_up else None,
        "efficiency": row.efficiency,
        "spread": {
            "samples_per_s": row.samples_per_s.deviation if row.samples_per_s else None,
            "speed_up": row.speed_up.deviation if row.speed_up else None,
        },
        "n": row.samples_per_s.count if row.samples_per_s else 0,
        "same_curve": row.same_curve,
        "curve": None if check is None else {
            "steps": check.steps, "largest_difference": check.largest, "first_different_step": check.first_step,
        },
        "peak_memory_bytes": row.peaks,
    }  # fmt: skip
