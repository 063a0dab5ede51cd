"""What a failed run recorded, taken apart: the exception, the devices, the worker, the place in the user's code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from core.diagnosis.program_output import CASCADES, NCCL_ENDS, OF_LAUNCHER, exception_lines, raised_in
from core.language import Message, join_sentences, tr, tr_noop
from core.runs.facts import RunFacts
from core.schema.spec import RunSpec
from core.text import join_names

OF_WORKER = tr_noop("{phrase}:")
"""The beginning of the error of a worker: its name. What follows is the exception."""
KERNEL_KILLED = tr_noop("The kernel ended a process for lack of memory meanwhile.")
"""What a supervisor adds to the error of a worker that was killed, if the kernel counts such an end."""
GROUP_KILLED = tr_noop("The kernel ended a process meanwhile because of a memory limit: {size} ({file}).")
"""As `KERNEL_KILLED`, if the limit of a control group was the reason."""
EXAMINED = tr_noop("Examined at a stall, or before the stop was forced: {found}")
"""The notice that an examination of the run leaves (`core.doctor`)."""
FAILED_FIRST = tr_noop("Worker {rank} failed first, and the others because of it.")
"""What a supervisor adds to the error of a root from which others failed."""
DISTURBED = tr_noop("The run may have been slowed down: {marks}.")
"""What a supervisor says at the end of a run beside other programs, or on a machine under pressure."""


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
    log_end: str = ""
    others: str = ""
    """`FAILED_FIRST`, if it was recorded."""

    def has(self, *patterns: str) -> bool:
        """Return whether one of these patterns is in the error, or in the exception at the end of the traceback.

        The lines above it may tell of errors that the program has handled.
        """
        lines, first = exception_lines(self.facts.traceback or "")
        text = "\n".join([Message.read(self.error).english, *lines[first:]])
        return any(re.search(pattern, text) for pattern in patterns)

    def told(self, *patterns: str) -> bool:
        """Return whether the run `has` one of these patterns, or its log where a library ended the program.

        An exception of C++ that nothing catches is printed, and ends its program by SIGABRT.
        """
        return self.has(*patterns) or (self.has("SIGABRT", r"(?<![\w.])-6\b") and any(
            re.search(pattern, self.log_end) for pattern in patterns))

    @property
    def is_cascade(self) -> bool:
        """Whether it only says that another worker did not come, or was lost.

        What a library prints does not count beside an exception, unless that is the launcher's.
        """
        is_silent = not self.kind or OF_LAUNCHER.match(self.kind) is not None
        return self.has(*CASCADES) or (is_silent and self.told(*NCCL_ENDS))

    def found(self, pattern: str, *, after: str = "\0") -> str:
        """Return the first group of a match in the error or in the traceback; the empty string without one.

        `after`: words above what counts, where they are there.
        """
        text = f"{Message.read(self.error).english}\n{self.facts.traceback or ''}"
        match = re.search(pattern, text.rpartition(after)[2])
        return next((group for group in match.groups() if group), "") if match else ""

    @property
    def where(self) -> str:
        """The labels of the devices, joined; the empty string if there are none."""
        return join_names(self.labels.get(each, each) for each in self.devices)

    @property
    def step(self) -> str:
        """` at step 214`; the empty string before the first step."""
        return tr(" at step {step}", step=self.facts.step) if self.facts.step else ""


def examined(facts: RunFacts) -> list[str]:
    """Return what examinations of the run have found, in sentences."""
    return [each for each in facts.notices if Message.read(each).say == (EXAMINED,)]


WORKER = re.compile(r"^(?:Worker (?P<rank>\d+)|The [a-z ]+?)(?: on (?P<devices>\S+(?:, \S+)*?))?(?:: | was | ended )")
RAISED = re.compile(
    r"^(?:.*?: )?(?P<kind>[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration)): (?P<message>.*)$", re.DOTALL
)
RANK_OF_SCRIPT = re.compile(r"\(Worker (\d+)(?: on ([^)]+))?\)")
FRAME = re.compile(r'^(?:  ){1,2}File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?', re.MULTILINE)


def evidence_of(
    facts: RunFacts, spec: RunSpec | None, error: str, labels: Mapping[str, str], log_end: str = ""
) -> FailureEvidence:
    """Take a failure apart. `error`: the sentence that the run recorded; `labels`: names of devices by id."""
    parts = Message.read(error).sentences
    first = next((each for each in parts if each.say == (FAILED_FIRST,)), None)
    if first is not None:
        parts.remove(first)
        error = join_sentences(parts)
    english = Message.read(error).english
    worker = WORKER.match(english) or RANK_OF_SCRIPT.search(english)
    rank, names = (worker[1], worker[2]) if worker else (None, None)
    known = tuple(facts.devices) or (spec.devices if spec else ())
    devices = tuple(each for each in (names or "").split(", ") if each in known) or (known if len(known) == 1 else ())
    raised = RAISED.match(english)
    kind, message = (raised["kind"], raised["message"]) if raised else ("", error)
    if raised and f"{kind}:" in parts:  # of a worker: the sentences after it are those of the exception
        message = join_sentences(parts[[*map(str, parts)].index(f"{kind}:") + 1 :])
    if not raised and (found := raised_in(facts.traceback or "")) is not None:
        kind, message = found.kind, found.message
    own = {device: str(each.get("label") or device) for device, each in facts.devices.items()}
    return FailureEvidence(
        facts=facts, spec=spec, error=error, kind=kind, message=message,
        devices=_named(english, known) or devices, labels=own | dict(labels), rank=int(rank or 0),
        log_end=log_end if facts.starts < 2 else "",  # which may be of the time before it was resumed
        others=tr(first or ""),
    )


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
    ]
    folder = str(PurePath(workload).parent if workload else spec.working_dir).rstrip("/") + "/"
    own = [each for each in frames if each.file == workload]
    near = [each for each in frames if each.file.startswith(folder) and "/site-packages/" not in each.file]
    return next(reversed(own or near), None)
