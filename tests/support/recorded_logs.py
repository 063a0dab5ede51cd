"""Logs of public programs, each with what must be recorded of it: see `tests/recorded_logs/README.md`."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.metrics.merge import TEXT, MetricMerger
from core.metrics.reading import Reading
from core.metrics.text.log import LogReader

FOLDER = Path(__file__).parents[1] / "recorded_logs"
WITHOUT_METRICS = FOLDER / "without_metrics"
FIELDS = ("program", "source", "kind", "expect")
CONTROL_PICTURES = {"␍": "\r", "␛": "\x1b", "␈": "\b"}
"""Characters in a file that stand for control characters, which editors and git do not keep."""
START = "# log:\n"

Curves = dict[str, list[tuple[int, float]]]
"""By metric: steps and values."""
Progress = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class RecordedLog:
    """One file of `tests/recorded_logs`."""

    name: str
    program: str  # with its version
    source: str  # "run", or "written from source", or "written from memory"
    kind: str  # the heading in the documentation's table
    expect: str
    data: bytes

    def faults(self, curves: Curves, progress: Progress | None) -> list[str]:
        """Return a sentence for each thing that was recorded wrongly."""
        return list(_faults(self.expect, curves, progress))


def recorded_logs(folder: Path = FOLDER) -> Iterator[RecordedLog]:
    """Yield all recorded logs of a folder, by name."""
    for path in sorted(folder.glob("*.log")):
        yield parse(path.stem, path.read_text(encoding="utf-8"))


def public_programs() -> Iterator[RecordedLog]:
    """Yield the logs of the one file that has those of many programs."""
    for text in (FOLDER / "public_programs.txt").read_text(encoding="utf-8").split("# program: ")[1:]:
        yield parse(text.partition("\n")[0], f"# program: {text}")


def parse(name: str, text: str) -> RecordedLog:
    """Return the log in the text of a file. Raises `ValueError` if a line of its head is wrong."""
    head, found, log = text.partition(START)
    fields: dict[str, str] = {}
    for line in head.splitlines():
        field_name, colon, value = line.removeprefix("# ").partition(": ")
        if not line.startswith("# ") or not colon or field_name not in FIELDS:
            raise ValueError(f"{name}: {line!r} is none of the lines {', '.join(FIELDS)}")
        fields[field_name] = f"{fields[field_name]} {value}" if field_name in fields else value
    if not found or len(fields) < len(FIELDS):
        raise ValueError(f"{name}: the head lacks one of the lines {', '.join(FIELDS)}, log")
    for picture, character in CONTROL_PICTURES.items():
        log = log.replace(picture, character)
    return RecordedLog(name=name, **fields, data=log.encode())


def record(pieces: Iterable[bytes]) -> tuple[Curves, Progress | None]:
    """Return the curves and the last progress of a log that comes in pieces, as the collector records them."""
    reader, recorder = LogReader(), _Recorder()
    for piece in pieces:
        recorder.take(reader.take(piece))
    recorder.take(reader.end())
    return recorder.curves, recorder.progress


@dataclass
class _Recorder:
    """Merges readings, and replaces values as a run's measurements do."""

    curves: Curves = field(default_factory=dict)
    progress: Progress | None = None
    _merger: MetricMerger = field(default_factory=MetricMerger)

    def take(self, readings: Sequence[Reading]) -> None:
        for reading in readings:
            if reading.done is not None and reading.total is not None:
                self.progress = (reading.done, reading.total)
        for merged in self._merger.take(TEXT, readings):
            assert merged.step is not None
            for name, value in merged.values.items():
                before = [] if name in merged.restarts else self.curves.get(name, [])
                self.curves[name] = [*(point for point in before if point[0] < merged.step), (merged.step, value)]


def _faults(expect: str, curves: Curves, progress: Progress | None) -> Iterator[str]:
    wanted: set[str] = set()
    only = False
    for clause in filter(None, map(str.strip, expect.split(";"))):
        name, *rest = clause.split()
        if name == "only":
            only = True
        elif name == "maybe":
            wanted.update(rest)
        elif name == "progress":
            yield from _faults_of_progress(rest[0], progress)
        else:
            wanted.add(name)
            yield from _faults_of_metric(name, rest, curves)
    if only and (more := sorted(set(curves) - wanted)):
        yield "also recorded: " + ", ".join(f"{name} {curves[name][:3]}" for name in more)


def _faults_of_metric(name: str, rest: Sequence[str], curves: Mapping[str, list[tuple[int, float]]]) -> Iterator[str]:
    if name not in curves:
        yield f"no {name}"
        return
    values = curves[name]
    for token in rest:
        if token.startswith("n="):
            if len(values) != int(token[2:]):
                yield f"{name} has {len(values)} values, not {token[2:]}: {values[:8]}"
        elif not any(_is_at(token, step, value) for step, value in values):
            yield f"{name} has no {token}: {values[:8]}"


def _is_at(token: str, step: int, value: float) -> bool:
    at, of = token.rsplit(":", 1)
    low, _, high = at.partition("-")
    is_step = at == "*" or int(low) <= step <= int(high or low)
    return is_step and (of == "*" or _is_near(value, float(of)))


def _is_near(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-5, abs_tol=1e-9) or (math.isnan(value) and math.isnan(wanted))


def _faults_of_progress(wanted: str, progress: Progress | None) -> Iterator[str]:
    if wanted == "none":
        if progress is not None:
            yield f"progress is {progress}, not none"
        return
    done, total = map(float, wanted.split("/"))
    whole = done == total == 1 and progress is not None and math.isclose(progress[0], progress[1])
    if progress != (done, total) and not whole:
        yield f"progress is {progress}, not {wanted}"
