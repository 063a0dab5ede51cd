"""Report a run as one JSON document, and its metrics as CSV."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from core.arrays import np
from core.history.marks import marks_fields, read_marks
from core.runs import outputs
from core.runs.checkpoints import listed
from core.runs.facts.verdicts import release_fields, worst
from core.schema.spec import read_spec
from core.series.export_file import export_bytes, export_file
from core.series.run_series import RunSeries
from core.text import markdown_table, replace_control_characters, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import TextIO

    from core.history.summary import RunSummary
    from core.runs.facts.run_facts import RunFacts
    from core.runs.facts.verdicts import Release
    from core.runs.run import Run
    from core.schema.events import Event
    from core.series.series import Series


Json = dict[str, Any]
FORMULA = ("=", "+", "-", "@")
"""The characters with which a formula begins in a spreadsheet."""


def read_series(run: Run) -> RunSeries:
    """Read a run, of which nothing has been read yet, to its end, and return its series."""
    return series_of(run, run.catch_up())


def series_of(run: Run, events: list[Event]) -> RunSeries:
    """Return the series of all events of a run, and note in its facts what is missing."""
    run_series = RunSeries()
    run_series.fold(events)
    run.add_notice(run_series.notice)
    return run_series


def document(run: Run) -> Json:
    """Read a run, of which nothing has been read yet, to its end, and return the document that `show --json` prints."""
    events = run.catch_up()
    run_series = series_of(run, events)
    facts = run.facts
    reasons = {str(each.get("name")): str(each.get("reason")) for each in events if each["kind"] == "checkpoint"}
    return {
        "run": run.id,
        "dir": str(run.dir),
        "state": facts.state.value,
        "owner": run.owner,
        "spec": run.spec().to_json(),
        "steps": facts.step,
        "metrics": {name: _metric(series) for name, series in sorted(run_series.metrics.items())},
        "devices": {name: _device(name, fields, run_series) for name, fields in facts.devices.items()},
        "checkpoints": _checkpoints(run, reasons),
        "outputs": [{"path": each.name, "bytes": each.size_bytes} for each in outputs.listed(run.dir).files],
        "release": _release(facts),
        "started": facts.started,
        "ended": facts.ended,
        "error": facts.error,
        "stalled": facts.stalled,
        "slowed": dict(facts.slowed),
        "stopped_processes": facts.stopped_processes,
        "notices": list(facts.notices),
        "unticked_device_uses": [use.to_event() for use in facts.unticked_device_uses],
        "software": asdict(facts.software) if facts.software else None,
        "source": asdict(facts.source) if facts.source else None,
        "parts": [asdict(part) for part in facts.parts.values()],
        "marks": marks_fields(read_marks(run.dir)),
    }


def _release(facts: RunFacts) -> Json | None:
    """Return the results of the memory watch; None if there are none yet."""
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


def _device(name: str, fields: Json, run_series: RunSeries) -> Json:
    utilisation, memory = run_series.utilisation.get(name), run_series.memory.get(name)
    return {
        "label": fields.get("label"),
        "kind": fields.get("device_kind"),
        "name": fields.get("name"),
        "memory_total_bytes": _plain(fields.get("memory_total_bytes")),
        "utilisation_mean_percent": _statistic(np.nanmean, utilisation),
        "memory_peak_bytes": _statistic(np.nanmax, memory),
    }


def _statistic(function: Any, series: Series | None) -> float | None:  # noqa: ANN401 (numpy's own types differ)
    """Apply one of numpy's reductions; return None if there is no reading."""
    if series is None or np.isnan(series.values).all():
        return None
    return _finite(float(function(series.values)))


def _finite(value: float) -> float | None:
    """Return None for a value that is not finite: it is not a reading."""
    return value if math.isfinite(value) else None


def _plain(value: float | None) -> float | str | None:
    """Return the text `nan`, `inf` or `-inf` for a value that is not finite: JSON has no such numbers."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def write_csv(run_series: RunSeries, file: TextIO) -> None:
    """Write each value of each metric: `metric,step,time,value`, time in unix seconds.

    A name that a spreadsheet would calculate, such as `=1+1`, begins with an apostrophe.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["metric", "step", "time", "value"])
    for name, series in sorted(run_series.metrics.items()):
        rows = zip(series.steps.tolist(), series.times.tolist(), series.values.tolist(), strict=True)
        shown = replace_control_characters(f"'{name}" if name.startswith(FORMULA) else name)
        writer.writerows([shown, int(step), f"{time:.6f}", repr(value)] for step, time, value in rows)


RUN_COLUMNS = (
    "run", "name", "state", "owner", "started", "seconds", "step", "loss", "mean_loss",
    "best_validation_loss", "framework", "strategy", "workload",
    "devices", "epochs", "batch_size", "learning_rate", "error",
)  # fmt: skip


def export_runs(summaries: Sequence[RunSummary], path: Path) -> None:
    """Write a line for each run, with its result and its main settings; as Markdown if the name ends with `.md`.

    Raises `RunError` as `export_file`.
    """
    export_bytes((runs_markdown if path.suffix.lower() == ".md" else runs_csv)(summaries).encode(), path)


def runs_markdown(summaries: Iterable[RunSummary]) -> str:
    """Return a table with a line for each run, with its result and its main settings, as Markdown."""
    rows = [[_cell(_run_row(each).get(name)) for name in RUN_COLUMNS] for each in summaries]
    return markdown_table([RUN_COLUMNS, *rows])


def runs_csv(summaries: Iterable[RunSummary]) -> str:
    """Return the same table as CSV."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, RUN_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for each in summaries:
        writer.writerow({name: spreadsheet_cell(value) for name, value in _run_row(each).items()})
    return file.getvalue()


def _cell(value: object) -> str:
    return "" if value is None else short(value)


def _run_row(summary: RunSummary) -> Json:
    started = summary.started
    row = {
        "run": summary.dir.name, "name": summary.name, "state": summary.state.value, "owner": summary.owner,
        "started": datetime.fromtimestamp(started, UTC).astimezone().isoformat(timespec="seconds") if started else None,
        "seconds": round(summary.ended - started, 1) if started and summary.ended else None,
        "step": summary.step, "loss": summary.last_loss, "mean_loss": summary.mean_loss, "error": summary.error,
        "best_validation_loss": summary.best_validation[1] if summary.best_validation else None,
    }  # fmt: skip
    try:
        spec = read_spec(summary.dir)
    except ValueError:
        return row
    row |= {"framework": spec.framework, "strategy": spec.strategy, "devices": len(spec.devices)}
    if spec.script is not None:
        return row | {"workload": spec.script.name}
    settings = spec.training
    return row | {
        "workload": spec.own_recipe.name, "epochs": settings.epochs, "batch_size": settings.batch_size,
        "learning_rate": settings.learning_rate,
    }  # fmt: skip


def csv_table(lines: Iterable[Iterable[object]]) -> str:
    """Return lines, the first of them the headings, as CSV; None is an empty cell."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows(map(spreadsheet_cell, line) for line in lines)
    return file.getvalue()


def spreadsheet_cell(value: object) -> object:
    """Return what a spreadsheet takes for text, and not for a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    return replace_control_characters(f"'{value}" if value.startswith(FORMULA) else value, keep="\n")


def export_csv(run_series: RunSeries, path: Path) -> None:
    """Write all metrics to a file, as `write_csv`. Raises `RunError` as `export_file`."""
    with export_file(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        write_csv(run_series, text)
