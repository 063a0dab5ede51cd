"""What a run came to, as one JSON document; and its measurements as CSV."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import RunError
from core.runs.checkpoints import listed
from core.runs.verdicts import release_fields, worst
from core.schema.files import not_written
from core.series.run_series import RunSeries

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from core.runs.facts import RunFacts
    from core.runs.run import Run
    from core.runs.verdicts import Release
    from core.series.series import Series


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunMeasurements:
    """What a run's events hold besides its facts."""

    book: RunSeries = field(default_factory=RunSeries)
    reasons: dict[str, str] = field(default_factory=dict)
    """By the name of a checkpoint, why it was written."""


def read_all(run: Run) -> RunMeasurements:
    """Bring a run up to date and return all that was measured."""
    record, events = RunMeasurements(), run.catch_up()
    record.book.fold(events)
    for event in events:
        if event["kind"] == "checkpoint":
            record.reasons[str(event.get("name"))] = str(event.get("reason"))
    return record


def document(run: Run, record: RunMeasurements) -> Json:
    """What `show --json` prints. `run` and `record` are up to date."""
    facts, book = run.facts, record.book
    return {
        "run": run.id,
        "dir": str(run.dir),
        "state": facts.state.value,
        "spec": run.spec().to_json(),
        "steps": facts.step,
        "metrics": {name: _metric(series) for name, series in sorted(book.metrics.items())},
        "devices": {name: _device(name, fields, book) for name, fields in facts.devices.items()},
        "checkpoints": _checkpoints(run, record.reasons),
        "release": _release(facts),
        "started": facts.started,
        "ended": facts.ended,
        "error": facts.error,
        "stalled": facts.stalled,
    }


def _release(facts: RunFacts) -> Json | None:
    """What the watch over the devices' memory found out, the worst of it first; None while there is nothing to tell."""
    found = facts.releases.values()
    if not found and not facts.ended_processes:
        return None
    worst_release = worst(found)
    return {
        "verdict": worst_release.verdict.value if worst_release else None,
        "seconds": max((each.seconds for each in found), default=None),
        "devices": {each.device_id: _finding(each) for each in found},
        "ended": [
            {"pid": each.pid, "name": each.name, "command": each.command, "signal": each.signal, "by": each.by}
            for each in facts.ended_processes
        ],
    }


def _finding(release: Release) -> Json:
    fields = release_fields(release)
    del fields["device"]
    return fields


def _checkpoints(run: Run, reasons: dict[str, str]) -> list[Json]:
    return [
        {
            "name": entry.path.name, "step": entry.step, "epoch": entry.epoch, "reason": reasons.get(entry.path.name),
            "path": str(entry.path), "bytes": entry.size_bytes,
        }
        for entry in listed(run.dir)
    ]  # fmt: skip


def _metric(series: Series) -> Json:
    return {
        "count": series.count,
        "first": _plain(series.first),
        "last": _plain(series.last),
        "min": _plain(series.min),
    }


def _device(name: str, fields: Json, book: RunSeries) -> Json:
    utilisation, memory = book.utilisation.get(name), book.memory.get(name)
    return {
        "label": fields.get("label"),
        "kind": fields.get("device_kind"),
        "name": fields.get("name"),
        "memory_total_bytes": _plain(fields.get("memory_total_bytes")),
        "utilisation_mean_percent": _statistic(np.nanmean, utilisation),
        "memory_peak_bytes": _statistic(np.nanmax, memory),
    }


def _statistic(function: Any, series: Series | None) -> float | None:  # noqa: ANN401 (one of numpy's reductions)
    """None when there is no reading at all."""
    if series is None or np.isnan(series.values).all():
        return None
    return _finite(float(function(series.values)))


def _finite(value: float) -> float | None:
    """A reading that is no number is no reading."""
    return value if math.isfinite(value) else None


def _plain(value: float | None) -> float | str | None:
    """JSON has no NaN: a loss that is not a number is given as the text `nan`, `inf` or `-inf`."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def write_csv(book: RunSeries, file: TextIO) -> None:
    """Every step of every metric: `metric,step,time,value`, time in unix seconds."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["metric", "step", "time", "value"])
    for name, series in sorted(book.metrics.items()):
        rows = zip(series.steps.tolist(), series.times.tolist(), series.values.tolist(), strict=True)
        writer.writerows([name, int(step), f"{time:.6f}", repr(value)] for step, time, value in rows)


def export_csv(book: RunSeries, path: Path) -> None:
    """Write every measurement to a file. Raises `RunError` with a sentence; a file that was not there is not left."""
    new = not path.exists()
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(book, file)
    except OSError as error:
        if new:
            path.unlink(missing_ok=True)
        raise RunError(not_written(path, error, if_full="Free some space.", otherwise="Name another file.")) from error
