"""Say why a run failed: choose the cause by a table, and word its title and its sentence.

Window and command line use these words. The cause is found in what the run recorded, which is taken apart here: the
exception, the devices, the place in the user's code, the last lines.
"""

from __future__ import annotations

import functools
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import NamedTuple

from core.diagnosis.device_argument import device_argument
from core.diagnosis.program_output import exception_lines, first_sentence, raised_in
from core.language import Message, join_sentences, tr, tr_noop
from core.runs.facts import RunFacts, RunState
from core.schema.spec import RunSpec
from core.text import BYTES_PER_GB, join_names, one_line

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


MAX_SENTENCE = 400
MAX_TITLE = 90
MAX_REASON = 60
OF_WORKER = tr_noop("{phrase}:")
"""The beginning of the error of a worker: its name. What follows is the exception."""


class Cause(Enum):
    """Why a run failed, as far as that decides what a user can do."""

    DEVICE_MEMORY = "device memory"
    HOST_MEMORY = "host memory"
    DEVICE_NUMBER = "device number"
    """A number of a device that the run does not have."""
    LOCAL_RANK = "local rank"
    """An old launcher passes the rank as an argument, or the program expects that."""
    TERMINAL = "terminal"
    TENSORFLOW_1 = "tensorflow 1"
    """A program for TensorFlow 1, run with TensorFlow 2."""
    MISSING_MODULE = "missing module"
    FRAMEWORK = "framework"
    FAULT = "device fault"
    """A GPU of which the driver says that something is wrong with it."""
    CUDA = "cuda"
    DISK = "disk"
    NOT_FINITE = "not finite"
    KILLED = "killed"
    SIGNAL = "signal"
    LOST = "lost"
    HEAD_LOST = "head lost"
    """The machine that has the run was lost; what is here is its part."""
    CODE = "code"
    """An exception of the user's code, or raised below it."""
    EXIT = "exit code"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed."""

    cause: Cause
    title: str
    """The cause in a few words, without a full stop."""
    sentence: str
    """What happened, and what helps: one or more sentences."""
    place: Place | None
    """Where in the user's code; None if it is not known."""
    lines: tuple[str, ...]
    """The line that names the exception and those before it, else the last lines of the log."""
    rank: int
    """The worker that failed first; 0 if it is not known."""


def failure_of(
    facts: RunFacts, spec: RunSpec | None, *, log_end: str = "", labels: Mapping[str, str] | None = None
) -> Failure | None:
    """Return why a run failed; None for a run that did not.

    `log_end`: the end of its log; `labels`: names of devices by id, where they are known better than by the run.
    """
    if facts.error is None or facts.state not in {RunState.FAILED, RunState.LOST, RunState.HEAD_LOST}:
        return None
    evidence = evidence_of(facts, spec, facts.error, labels or {})
    row = next(row for row in _ROWS if row.applies(evidence))
    title, sentence = row.words(evidence)
    lines, first = exception_lines(facts.traceback or "")  # of the traceback, as far as the exception's name
    log = [line.rstrip() for line in log_end.splitlines() if line.strip() and not set(line) <= set(" ^~")]
    shown = (lines[: first + 1] or log)[-LAST_LINES:]
    return Failure(
        cause=row.cause, title=one_line(title, MAX_TITLE).rstrip("."), sentence=one_line(sentence, MAX_SENTENCE),
        place=place_of(facts.traceback or "", spec), rank=evidence.rank,
        lines=tuple(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…" for line in shown),
    )


KERNEL_KILLED = tr_noop("The kernel ended a process for lack of memory meanwhile.")
"""What a supervisor adds to the error of a worker that was killed, if the kernel counts such an end."""


def short_cause(error: str) -> str:
    """Return the cause in a few words for a list, from the sentence of an error alone; the empty string if unknown."""
    cause, module = _cause_and_module(error)
    if cause is Cause.MISSING_MODULE:
        return tr("module {module} is missing", module=module)
    return tr(SHORT.get(cause, ""))


def short_reason(error: str) -> str:
    """Return the first words of an error, without the worker that it is of."""
    found = join_sentences(tr(each) for each in Message.read(error).sentences if each.say != (OF_WORKER,))
    first = found.partition("\n")[0]
    return first if len(first) <= MAX_REASON else first[:MAX_REASON].rstrip() + "…"


@functools.lru_cache(maxsize=2048)
def _cause_and_module(error: str) -> tuple[Cause, str]:
    evidence = evidence_of(RunFacts(state=RunState.FAILED, error=error), None, error, {})
    row = next(row for row in _ROWS if row.applies(evidence))
    return row.cause, evidence.found(NO_MODULE)


EXPLAINED = frozenset({Cause.TENSORFLOW_1, Cause.DEVICE_NUMBER, Cause.LOCAL_RANK, Cause.TERMINAL})
"""Causes whose exception does not say what helps."""
SHORT = {
    Cause.DEVICE_MEMORY: tr_noop("out of memory"),
    Cause.HOST_MEMORY: tr_noop("machine out of memory"),
    Cause.TENSORFLOW_1: tr_noop("needs TensorFlow 1"),
    Cause.FAULT: tr_noop("faulty GPU"),
    Cause.CUDA: tr_noop("no CUDA"),
    Cause.DISK: tr_noop("disk full"),
    Cause.KILLED: tr_noop("killed from outside"),
    Cause.NOT_FINITE: tr_noop("loss not a number"),
}


# -- the table of causes -----------------------------------------------------------------------------


NO_MEMORY = (r"\bOutOfMemoryError\b", r"(?:CUDA|HIP)(?: error:)? out of memory", r"ran out of memory",
             r"\bResourceExhaustedError\b", r"RESOURCE_EXHAUSTED: .*(?:memory|alloc|reserv)",
             r"CUDA_ERROR_OUT_OF_MEMORY", r"cudaErrorMemoryAllocation", r"\bCU\w+_STATUS_ALLOC_FAILED")
NODE_MEMORY = r"node running low on memory"
"""What Ray says of the memory of the machine."""
NO_HOST_MEMORY = (r"can't allocate memory", r"\bMemoryError\b", r"Cannot allocate memory", r"std::bad_alloc")
NO_DISK = (r"No space left on device", r"[Dd]isk\b.* (?:is|was) full", r"Disk quota exceeded")
STOPS_ON_NAN = r"as its setting “Stop on NaN” says\."
IMPORT_ERRORS = frozenset({"ModuleNotFoundError", "ImportError"})
NO_CUDA = (r"CUDA driver's library cannot be used", r"CUDA driver (would|cannot|did|has)", r"asks the CUDA driver",
           r"libcuda\.so", r"sees (0|no) CUDA", r"Torch not compiled with CUDA", r"CUDA driver initialization failed",
           r"no kernel image is available")
GPU_ERRORS = (r"CUDA error\b(?!: (?:device-side assert|no kernel image))", r"CUDA_ERROR_(?!OUT_OF_MEMORY|ASSERT)",
              r"\bcudaError(?!Assert|NoKernelImage)", r"CUDA (driver )?initialization",
              r"cuDNN error", r"CUDNN_STATUS", r"CUBLAS_STATUS_(?!ALLOC_FAILED)", r"\bNCCL\b")
"""What a faulty GPU makes programs say, and others, too: they count only if the driver reports a fault.

An assertion inside a kernel, such as an index out of range, and a wrong build of a framework are not the GPU's.
"""
NO_DEVICE = (r"invalid device ordinal", r"device >= 0 && device < num_gpus", r"cudaErrorInvalidDevice",
             r"(?:Assertion|Runtime|Value)Error: [Ii]nvalid device (?:id|ID)\b")
LOCAL_RANK_ARGUMENT = r"error: (?:unrecognized arguments|the following arguments are required): .*--(local[-_]rank)\b"
TERMINAL_SIZE = r"(stty size|get_terminal_size)"
NO_TERMINAL = r"Inappropriate ioctl for device"
CHILD_SIGNAL = r"terminated with signal (SIG\w+)|died with <Signals\.(SIG\w+)|Signal \d+ \((SIG\w+)\)"
CHILD_CODE = r"(?:return code = |exit status |exitcode *: )-(\d+)"
"""How launchers report that a signal has ended a process."""
ROOT_CAUSE = "Root Cause (first observed failure):"
"""What torchrun prints between the processes that it ended itself and the one that failed."""
NO_MODULE = r"No module named '([^']+)'"
TENSORFLOW_1 = (
    r"module 'tensorflow(?:\.\S+)?' has no attribute '(placeholder\w*|Session|InteractiveSession|ConfigProto|contrib|"
    r"app|flags|logging|layers|get_variable|variable_scope|global_variables_initializer|initialize_all_variables|"
    r"reset_default_graph|get_default_graph|set_random_seed|truncated_normal|random_normal|to_float|\w+Optimizer|"
    r"FileWriter|merge_all\w*)'|No module named '(tensorflow\.(?:contrib|examples)[\w.]*)'|"
    r"(tf\.\w+)(?:\(\))? is not (?:compatible with|supported when) eager execution"
)
"""What TensorFlow 2 says of a name that only TensorFlow 1 has."""


class _Row(NamedTuple):
    """One cause: how it is recognised, and its title and sentence."""

    cause: Cause
    applies: Callable[[FailureEvidence], bool]
    words: Callable[[FailureEvidence], tuple[str, str]]


def _device_memory(evidence: FailureEvidence) -> tuple[str, str]:
    where = evidence.where or tr("A device")
    title = tr("{where} ran out of memory{step}", where=where, step=evidence.step)
    used = _usage(evidence)
    wanted = evidence.found(r"[Tt]ried to allocate ([\d.]+ ?[KMGT]i?B)|when allocating ([\d.]+ ?[KMGT]i?B)")
    wanted = wanted.replace("iB", "B")  # GB are 2**30 bytes in all our sentences
    more = tr("The step that failed asked for {size} more.", size=wanted) if wanted else None
    remedy = tr("Try a smaller batch, gradient accumulation or bfloat16.")
    if evidence.spec is not None and evidence.spec.script is not None:
        remedy = tr("Try a smaller batch.")
    return title, join_sentences([used, more, remedy])


def _usage(evidence: FailureEvidence) -> str:
    """Return how full the devices were, as far as it was read."""
    facts, texts = evidence.facts, []
    for device in evidence.devices:
        release, total = facts.releases.get(device), facts.devices.get(device, {}).get("memory_total_bytes")
        if release is None or release.peak_bytes is None or not total:
            continue
        sentence = tr_noop("{label}: {peak:.1f} of {total:.1f} GB were in use at most.")
        if len(evidence.devices) == 1:
            sentence = tr_noop("{peak:.1f} of {total:.1f} GB were in use at most.")
        peak, label = release.peak_bytes / BYTES_PER_GB, evidence.labels.get(device, device)
        texts.append(tr(sentence, label=label, peak=peak, total=total / BYTES_PER_GB))
    if texts:
        return join_sentences(texts)
    return evidence.found(r"(This run's peak on it was [\d.]+(?: of [\d.]+)? GB\.)")


def _host_memory(evidence: FailureEvidence) -> tuple[str, str]:
    return (
        tr("The machine ran out of memory{step}", step=evidence.step),
        tr(
            "There was not enough main memory for the next allocation. Try a smaller batch or fewer data-loader "
            "workers, or end other programs."
        ),
    )


def _missing_module(evidence: FailureEvidence) -> tuple[str, str]:
    module = evidence.found(NO_MODULE)
    python = evidence.spec.python if evidence.spec else tr("The Python of this run")
    return (
        tr("The module {module} is missing", module=module),
        tr(
            "{python} does not have {module}. Install the package that provides it there, or choose another Python.",
            python=python, module=module,
        ),
    )


def _tensorflow_1(evidence: FailureEvidence) -> tuple[str, str]:
    name = evidence.found(TENSORFLOW_1)
    return (
        tr("The program needs TensorFlow 1"),
        tr(
            "{name} is of TensorFlow 1, and TensorFlow 2 does not have it. Choose a Python with TensorFlow 1 (Python "
            "3.7 or older). For all but tf.contrib and tensorflow.examples, it is also enough to import "
            "tensorflow.compat.v1 as tf and to call tf.disable_v2_behavior().",
            name=name if name.startswith(("tf.", "tensorflow.")) else f"tf.{name}",
        ),
    )


def _device_number(evidence: FailureEvidence) -> tuple[str, str]:
    script = evidence.spec.script if evidence.spec is not None else None
    named = device_argument(script.arguments) if script is not None else None
    place = place_of(evidence.facts.traceback or "", evidence.spec)
    count = len(evidence.facts.devices)
    inside = tr("Inside a run numbers of GPUs begin at 0, and the last one here is {last}.", last=max(0, count - 1))
    if named is not None and named[1] >= count:
        remedy = tr("Leave out {argument}, or give a number up to that.", argument=named[0])
    elif place is not None:
        remedy = tr("Change the number that {place} uses.", place=place)
    else:
        remedy = tr("Look for the number in the program and its settings.")
    return tr("The program asks for a GPU that this run does not have"), join_sentences([inside, remedy])


def _local_rank(_: FailureEvidence) -> tuple[str, str]:
    return (
        tr("The program and its launcher disagree about --local_rank"),
        tr(
            "torch.distributed.launch passes --local-rank, and before PyTorch 2 --local_rank. Start the program itself "
            "with one process per device, or with torchrun: both set the variable LOCAL_RANK instead."
        ),
    )


def _terminal(evidence: FailureEvidence) -> tuple[str, str]:
    return (
        tr("The program asks for the size of a terminal"),
        tr(
            "A run has no terminal, so {call} fails. Use shutil.get_terminal_size(), which has a default, or set the "
            "width by hand.", call=evidence.found(TERMINAL_SIZE),
        ),
    )


def _not_finite(evidence: FailureEvidence) -> tuple[str, str]:
    step = evidence.found(r"at step (\d+)")
    return tr("The loss was no longer a number at step {step}", step=step) if step else tr(
        "The loss was no longer a number"
    ), tr(evidence.message)


def _killed(evidence: FailureEvidence) -> tuple[str, str]:
    on = tr(" on {where}", where=evidence.where) if evidence.where else ""
    if evidence.has(KERNEL_KILLED):
        return (
            tr("The machine ran out of memory{step}", step=evidence.step),
            tr(
                "The kernel ended the training process{on} to free memory. Try a smaller batch or fewer "
                "data-loader workers, or end other programs. Its log names what it ended: "
                "journalctl -k | grep -i 'killed process'",
                on=on,
            ),
        )
    return (
        tr("A process was killed from outside{step}", step=evidence.step),
        tr(
            "The training process{on} was ended by SIGKILL, which this run did not send. Most often the system "
            "does this when the machine runs out of memory. Its log says so: "
            "journalctl -k | grep -i 'killed process'",
            on=on,
        ),
    )


def _signal_of(evidence: FailureEvidence) -> str:
    """Return the name of the signal that ended a process; the empty string if none did."""
    if name := evidence.found(r"was ended by (SIG\w+)") or evidence.found(CHILD_SIGNAL, after=ROOT_CAUSE):
        return name
    number = int(evidence.found(CHILD_CODE, after=ROOT_CAUSE) or 0)
    return signal.Signals(number).name if number in {*signal.Signals} else ""


def _signal(evidence: FailureEvidence) -> tuple[str, str]:
    name = _signal_of(evidence)
    words = tr(SIGNALS.get(name, OTHER_SIGNAL))
    on = tr(" on {where}", where=evidence.where) if evidence.where else ""
    return tr("A process was ended by {name}{step}", name=name, step=evidence.step), tr(
        "The training process{on} was ended by {name}: {words}", on=on, name=name, words=words
    )


SIGNALS = {
    "SIGSEGV": tr_noop("a library or the driver accessed memory that it must not. The end of the log may say which."),
    "SIGBUS": tr_noop("memory could not be read, often because /dev/shm is full. Try fewer data-loader workers."),
    "SIGABRT": tr_noop("a library ended it on purpose after an error. The end of the log says why."),
    "SIGILL": tr_noop(
        "a library uses instructions that this processor does not have. Install a build for this processor."
    ),
    "SIGFPE": tr_noop("a library divided by zero. The end of the log may say which."),
}
"""What a signal means that this run did not send."""
OTHER_SIGNAL = tr_noop("another program or the system sent it.")


def _fault(evidence: FailureEvidence) -> tuple[str, str]:
    faults = evidence.facts.faults
    where = join_names(evidence.labels.get(each, each) for each in faults)
    return tr("Something is wrong with {where}", where=where), join_sentences(faults.values())


def _lost(evidence: FailureEvidence) -> tuple[str, str]:
    checkpoint = evidence.facts.checkpoint
    advice = (
        tr("Resume continues from step {step}.", step=checkpoint.step)
        if checkpoint is not None
        else tr("There is no checkpoint: Resume starts over.")
    )
    own = "" if evidence.has("exited unexpectedly") else f" {tr(evidence.error)}"
    return (
        tr("The background process of this run disappeared"),
        tr("It was killed, or the machine went down.{own} {advice}", own=own, advice=advice),
    )


_ROWS = (
    _Row(Cause.LOST, lambda each: each.facts.state is RunState.LOST, _lost),
    _Row(Cause.HEAD_LOST, lambda each: each.facts.state is RunState.HEAD_LOST, lambda each: (
        tr("The machine that has this run was lost"),
        join_sentences([tr(each.error), tr("Resume the run there. This part of it can be removed.")]),
    )),
    _Row(Cause.FRAMEWORK, lambda each: each.kind == "FrameworkError",
         lambda each: (tr("The framework could not be loaded"), tr(each.message))),
    _Row(Cause.DEVICE_MEMORY, lambda each: each.has(*NO_MEMORY) and not _is_on_host(each), _device_memory),
    _Row(Cause.HOST_MEMORY, lambda each: each.has(*NO_HOST_MEMORY) or each.has(*NO_MEMORY), _host_memory),
    _Row(Cause.DEVICE_NUMBER, lambda each: each.has(*NO_DEVICE), _device_number),
    _Row(Cause.LOCAL_RANK, lambda each: bool(each.found(LOCAL_RANK_ARGUMENT)), _local_rank),
    _Row(Cause.TERMINAL, lambda each: bool(each.found(TERMINAL_SIZE)) and (
        each.kind == "ValueError" or each.has(NO_TERMINAL)), _terminal),
    _Row(Cause.TENSORFLOW_1, lambda each: each.has(TENSORFLOW_1), _tensorflow_1),
    _Row(Cause.MISSING_MODULE, lambda each: each.kind in IMPORT_ERRORS and each.has(NO_MODULE), _missing_module),
    _Row(Cause.FAULT, lambda each: bool(each.facts.faults) and each.has(*GPU_ERRORS), _fault),
    _Row(Cause.CUDA, lambda each: each.has(*NO_CUDA),
         lambda each: (tr("The GPUs cannot be used by CUDA"), tr(each.message or each.error))),
    _Row(Cause.DISK, lambda each: each.has(*NO_DISK), lambda each: (tr("The disk is full"), tr(each.error))),
    _Row(Cause.NOT_FINITE, lambda each: each.kind == "NotFiniteError" or each.has(STOPS_ON_NAN), _not_finite),
    _Row(Cause.KILLED, lambda each: _signal_of(each) == "SIGKILL", _killed),
    _Row(Cause.SIGNAL, lambda each: bool(_signal_of(each)), _signal),
    _Row(Cause.CODE, lambda each: bool(each.kind),
         lambda each: (each.kind, tr(first_sentence(each.message)) or tr("It has no message."))),
    _Row(Cause.EXIT, lambda each: each.has(r"ended with exit code \d+"), lambda each: (
        tr("The program ended with exit code {code}", code=each.found(r"ended with exit code (\d+)")), tr(each.error),
    )),
    _Row(Cause.OTHER, lambda _: True, lambda each: (tr("The run failed"), tr(each.error))),
)
"""The causes, the most certain first; the last applies to every failure."""


def _is_on_host(evidence: FailureEvidence) -> bool:
    """Return whether memory of the machine was missing: the run has CPU devices only, or Ray says so."""
    if evidence.has(NODE_MEMORY):
        return True
    devices = evidence.devices or tuple(evidence.facts.devices)
    return bool(devices) and all(each.startswith("cpu:") for each in devices)
