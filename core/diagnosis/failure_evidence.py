"""What a failed run recorded, taken apart: the exception, the devices, the place in the user's code, the last lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from core.diagnosis.program_output import exception_lines, raised_in
from core.language import Message, join_sentences, tr
from core.runs.facts.run_facts import RunFacts
from core.schema.spec import RunSpec
from core.text import join_names

LAST_LINES = 3
"""Lines of the traceback or of the log that belong to a failure."""
MAX_LINE = 240
"""Characters of such a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of the user's code."""

    file: str
    line: int
    function: str
    """The empty string at the level of the file."""

    def __str__(self) -> str:
        where = tr("{file}, line {line}", file=PurePath(self.file).name, line=self.line)
        return tr("{where}, in {function}()", where=where, function=self.function) if self.function else where


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureEvidence:
    """What a failed run recorded, taken apart."""

    facts: RunFacts
    spec: RunSpec | None
    error: str
    """The sentence that the run recorded."""
    kind: str
    """The name of the exception; the empty string if there was none."""
    message: str
    """What the exception says."""
    devices: tuple[str, ...]
    """The ids of the devices of the worker that failed."""
    labels: Mapping[str, str]
    rank: int

    def has(self, *patterns: str) -> bool:
        """Return whether one of these patterns is in the error, or in the exception at the end of the traceback.

        The lines above it may tell of errors that the program has handled.
        """
        lines, first = exception_lines(self.facts.traceback or "")
        text = "\n".join([Message.read(self.error).english, *lines[first:]])
        return any(re.search(pattern, text) for pattern in patterns)

    def found(self, pattern: str) -> str:
        """Return the first group of a match in the error or in the traceback; the empty string without one."""
        match = re.search(pattern, f"{Message.read(self.error).english}\n{self.facts.traceback or ''}")
        return next((group for group in match.groups() if group), "") if match else ""

    @property
    def where(self) -> str:
        """The labels of the devices, joined; the empty string if there are none."""
        return join_names(self.labels.get(each, each) for each in self.devices)

    @property
    def step(self) -> str:
        """` at step 214`; the empty string before the first step."""
        return tr(" at step {step}", step=self.facts.step) if self.facts.step else ""


WORKER = re.compile(r"^(?:Worker (?P<rank>\d+)|The [a-z ]+?)(?: on (?P<devices>\S+(?:, \S+)*?))?(?:: | was | ended )")
RAISED = re.compile(
    r"^(?:.*?: )?(?P<kind>[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration)): (?P<message>.*)$", re.DOTALL
)
RANK_OF_SCRIPT = re.compile(r"\(Worker (\d+)(?: on ([^)]+))?\)")
FRAME = re.compile(r'^(?:  ){1,2}File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?', re.MULTILINE)


def evidence_of(facts: RunFacts, spec: RunSpec | None, error: str, labels: Mapping[str, str]) -> FailureEvidence:
    """Take a failure apart. `error`: the sentence that the run recorded; `labels`: names of devices by id."""
    english = Message.read(error).english
    worker = WORKER.match(english) or RANK_OF_SCRIPT.search(english)
    rank, names = (worker[1], worker[2]) if worker else (None, None)
    known = tuple(facts.devices) or (spec.devices if spec else ())
    devices = tuple(each for each in (names or "").split(", ") if each in known) or (known if len(known) == 1 else ())
    raised = RAISED.match(english)
    kind, message = (raised["kind"], raised["message"]) if raised else ("", error)
    parts = Message.read(error).sentences
    if raised and f"{kind}:" in parts:  # of a worker: the sentences after it are those of the exception
        message = join_sentences(parts[[*map(str, parts)].index(f"{kind}:") + 1 :])
    if not raised and (found := raised_in(facts.traceback or "")) is not None:
        kind, message = found.kind, found.message
    own = {device: str(each.get("label") or device) for device, each in facts.devices.items()}
    return FailureEvidence(
        facts=facts, spec=spec, error=error, kind=kind, message=message,
        devices=_named(english, known) or devices, labels=own | dict(labels), rank=int(rank or 0),
    )  # fmt: skip


def _named(error: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the device that an error names as full; the number of a GPU counts among the devices of the run."""
    named = re.search(r"Device (\S+) ran out of memory", error)
    if named and named[1] in known:
        return (named[1],)
    number = re.search(r"GPU (\d+) has a total capacity|device:GPU:(\d+)", error)
    index = int(number[1] or number[2]) if number else len(known)
    return (known[index],) if number and index < len(known) else ()


def place_of(traceback: str, spec: RunSpec | None) -> Place | None:
    """Return the deepest line of the user's code: of the workload, else of another file in its folder."""
    if spec is None:
        return None
    workload = spec.recipe.path if spec.recipe is not None else spec.script.path if spec.script is not None else ""
    frames = [
        Place(
            file=each["file"], line=int(each["line"]),
            function="" if each["function"] in {None, "<module>"} else each["function"],
        )
        for each in FRAME.finditer(traceback)
    ]  # fmt: skip
    folder = str(PurePath(workload).parent if workload else spec.working_dir).rstrip("/") + "/"
    own = [each for each in frames if each.file == workload]
    near = [each for each in frames if each.file.startswith(folder) and "/site-packages/" not in each.file]
    return next(reversed(own or near), None)


def lines_of_exception(traceback: str | None) -> tuple[str, ...]:
    """Return the line of a traceback that names the exception, with those before it."""
    lines, first = exception_lines(traceback or "")
    return tuple(shorten(line, MAX_LINE, strip=False) for line in lines[: first + 1][-LAST_LINES:])


def last_lines(text: str) -> tuple[str, ...]:
    """Return the last lines of a log that say something."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not set(line) <= set(" ^~")]
    return tuple(shorten(line, MAX_LINE, strip=False) for line in lines[-LAST_LINES:])


def shorten(text: str, limit: int, *, strip: bool = True) -> str:
    """Return at most `limit` characters. `strip`: as one line, with single spaces."""
    text = " ".join(text.split()) if strip else text
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
