"""A run as one JSON document, its metrics as CSV, and files that a user asked for, written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from core.history.marks import marks_fields, read_marks
from core.history.summary import RunSummary
from core.language import tr
from core.runs import outputs
from core.runs.facts import RunFacts, worst
from core.runs.outputs import listed_checkpoints
from core.runs.run import Run
from core.schema.event_kinds import Checkpoint, ModelPart, Release, read_all
from core.schema.events import Event
from core.schema.files import TEMPORARY
from core.schema.settings import Training
from core.schema.spec import RunSpec, read_spec
from core.series.device_readings import DeviceSeries
from core.series.run_series import RunSeries
from core.series.series import Series
from core.system.folders import writing
from core.table import Column, Table, as_text
from core.text import replace_control_characters

Json = dict[str, Any]


def read_series(run: Run, take: Callable[[list[Event]], object] = len) -> RunSeries:
    """Read a run, of which nothing has been read yet, to its end, and return its series.

    What is missing is noted in its facts. `take` gets all events, some at a time.
    """
    run_series = RunSeries()
    for events in run.every_slice():
        run_series.fold(events)
        take(events)
    run.add_notice(run_series.notice)
    return run_series


def document(run: Run) -> Json:
    """Read a run, of which nothing has been read yet, to its end, and return the document that `show --json` prints."""
    reasons: dict[str, str] = {}
    run_series = read_series(
        run, lambda events: reasons.update((each.name, each.reason) for each in read_all(Checkpoint, events))
    )
    facts, busy = run.facts, [each.mean for each in run_series.utilisation.values()]
    return {
        "run": run.id, "dir": str(run.dir), "state": facts.state.value, "owner": run.owner,
        "spec": run.spec().to_json(), "steps": facts.step,
        "metrics": {name: _metric(series) for name, series in sorted(run_series.metrics.items())},
        "devices": {name: _device(name, fields, run_series) for name, fields in facts.devices.items()},
        "checkpoints": [
            {"name": (name := each.path.name), "step": each.step, "epoch": each.epoch, "reason": reasons.get(name),
             "path": str(each.path), "bytes": each.size_bytes}
            for each in listed_checkpoints(run.dir)
        ],
        "outputs": [{"path": each.name, "bytes": each.size_bytes} for each in outputs.listed(run.dir).files],
        "release": _release(facts),
        "started": facts.started, "ended": facts.ended, "error": facts.error, "stalled": facts.stalled,
        "slowed": dict(facts.slowed), "stopped_processes": facts.stopped_processes, "notices": list(facts.notices),
        "unticked_device_uses": [{**use.fields(), "text": use.sentence} for use in facts.unticked_device_uses],
        "software": facts.software.fields() if facts.software else None,
        "source": facts.source.fields() if facts.source else None,
        "parts": [_part(part) for part in facts.parts.values()],
        "marks": marks_fields(read_marks(run.dir)),
        "why_slow": run_series.step_times.diagnosis(facts, busy).document(),
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
    fields = {**release.fields(), "sentence": release.sentence}
    del fields["device"]
    return fields


def _part(part: ModelPart) -> Json:
    return {
        "device": part.device, "parameters": list(part.parameters), "where": part.where, "size_bytes": part.size_bytes,
        "reads_from": part.reads_from or "",
    }


def _metric(series: Series) -> Json:
    first, last, smallest = map(_plain, (series.first, series.last, series.min))
    return {"count": series.count, "first": first, "last": last, "min": smallest}


def _device(name: str, fields: Json, run_series: RunSeries) -> Json:
    utilisation, memory = (each.get(name, DeviceSeries()) for each in (run_series.utilisation, run_series.memory))
    return {
        "label": fields.get("label"), "kind": fields.get("device_kind"), "name": fields.get("name"),
        "memory_total_bytes": _plain(fields.get("memory_total_bytes")),
        "utilisation_mean_percent": utilisation.mean, "memory_peak_bytes": memory.max,
    }


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
        shown = replace_control_characters(as_text(name))
        writer.writerows([shown, int(step), f"{time:.6f}", repr(value)] for step, time, value in rows)


def export_runs(summaries: Sequence[RunSummary], path: Path) -> None:
    """Write a line for each run, as Markdown if the name ends with `.md`. Raises `RunError` as `export_file`."""
    table = runs_table(summaries)
    export_bytes((table.markdown() if path.suffix.lower() == ".md" else table.csv()).encode(), path)


class ListedRun(NamedTuple):
    """A run in a table of runs."""

    run: RunSummary
    spec: RunSpec | None
    """None if it cannot be read."""

    @classmethod
    def of(cls, summary: RunSummary) -> ListedRun:
        try:
            return cls(summary, read_spec(summary.dir))
        except ValueError:
            return cls(summary, None)

    @property
    def training(self) -> Training | None:
        """The settings of a recipe."""
        return self.spec.training if self.spec is not None and self.spec.script is None else None

    @property
    def started(self) -> str | None:
        """When it started, in ISO 8601 with the time zone of here."""
        since = self.run.started
        return datetime.fromtimestamp(since, UTC).astimezone().isoformat(timespec="seconds") if since else None

    @property
    def seconds(self) -> float | None:
        """From its start to its end."""
        return round(self.run.ended - self.run.started, 1) if self.run.started and self.run.ended else None


RUN_COLUMNS: tuple[Column[ListedRun], ...] = (
    Column("run", lambda each: each.run.dir.name),
    Column("name", lambda each: each.run.name),
    Column("state", lambda each: each.run.state.value),
    Column("owner", lambda each: each.run.owner),
    Column("started", lambda each: each.started),
    Column("seconds", lambda each: each.seconds),
    Column("step", lambda each: each.run.step),
    Column("loss", lambda each: each.run.loss and each.run.loss.value),
    Column("last_loss", lambda each: each.run.last_loss),
    Column("mean_loss", lambda each: each.run.mean_loss),
    Column("best_validation_loss", lambda each: each.run.best_validation and each.run.best_validation[1]),
    Column("framework", lambda each: each.spec and each.spec.framework),
    Column("strategy", lambda each: each.spec and each.spec.strategy),
    Column("workload", lambda each: each.spec and (each.spec.script or each.spec.own_recipe).name),
    Column("devices", lambda each: each.spec and len(each.spec.devices)),
    Column("epochs", lambda each: each.training and each.training.epochs),
    Column("batch_size", lambda each: each.training and each.training.batch_size),
    Column("learning_rate", lambda each: each.training and each.training.learning_rate),
    Column("error", lambda each: each.run.error),
)


def runs_table(summaries: Iterable[RunSummary]) -> Table[ListedRun]:
    """Return a table with a line for each run, with its result and its main settings."""
    return Table(RUN_COLUMNS, [ListedRun.of(each) for each in summaries], unknown="", capitals=False)


def export_csv(run_series: RunSeries, path: Path) -> None:
    """Write all metrics to a file, as `write_csv`. Raises `RunError` as `export_file`."""
    with export_file(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        write_csv(run_series, text)


def check_free(path: Path, *, force: bool) -> None:
    """Raise `ValueError` with a sentence if there is a file at this path, unless it may be replaced.

    What is no file of a disk, such as `/dev/stdout`, is written in any case.
    """
    if not force and path.is_file() and not _is_stream(path):
        raise ValueError(tr("{path} exists already. Name another file, or add --force to replace it.", path=path))


@contextlib.contextmanager
def export_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its place when it is whole; until then, and after an error, `path` is as it was.

    An existing file is replaced and keeps its permissions. Raises `RunError` with a sentence.
    """
    with writing(path, tr("Name another file.")):
        if _is_stream(path):
            with path.open("wb") as stream:
                yield stream
            return
        target = path.resolve()  # a link stays a link to the new file
        temporary = target.with_name(f".export-{os.urandom(8).hex()}{TEMPORARY}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                if target.exists():
                    temporary.chmod(stat.S_IMODE(target.stat().st_mode))
                yield file
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def export_bytes(data: bytes, path: Path) -> None:
    """Write a file that a user has asked for. Raises `RunError` as `export_file`."""
    with export_file(path) as file:
        file.write(data)


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a device, or below `/dev`, such as `/dev/stdout` into a file."""
    return path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir())
