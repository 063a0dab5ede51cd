"""The causes of failures: how each is recognised, and its title and sentence."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from core.diagnosis.device_argument import device_argument
from core.diagnosis.evidence import KERNEL_KILLED, FailureEvidence, place_of
from core.diagnosis.program_output import first_sentence
from core.language import Message, join_sentences, tr, tr_noop, tr_plural
from core.runs.facts import RunState
from core.text import BYTES_PER_GB, join_names, size

LOG_BYTES = 1 << 16
"""The end of a log in which a cause may stand: each of many workers may print several lines about one failure."""


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
    FABRIC = "fabric"
    """The connection between the GPUs of a server is not set up."""
    MISMATCH = "driver mismatch"
    """The driver's module and a library, or the library and CUDA, are of versions that do not fit."""
    NO_KERNEL = "no kernel"
    """A framework that was not built for this GPU."""
    ACCESS = "illegal access"
    """A kernel that used memory or an index that it must not."""
    WAITED = "waited in vain"
    PORT = "port in use"
    DISK = "disk"
    NOT_FINITE = "not finite"
    LIMIT = "memory limit"
    """The kernel ended a process because of the limit of a control group, such as that of a container."""
    KILLED = "killed"
    SIGNAL = "signal"
    LOST = "lost"
    HEAD_LOST = "head lost"
    """The machine that has the run was lost; what is here is its part."""
    CODE = "code"
    """An exception of the user's code, or raised below it."""
    EXIT = "exit code"
    OTHER = "other"


OF_MEMORY = frozenset({Cause.DEVICE_MEMORY, Cause.HOST_MEMORY, Cause.LIMIT})
NO_MEMORY = (r"\bOutOfMemoryError\b", r"(?:CUDA|HIP)(?: error:)? out of memory", r"ran out of memory",
             r"\bResourceExhaustedError\b", r"RESOURCE_EXHAUSTED: .*(?:memory|alloc|reserv)",
             r"CUDA_ERROR_OUT_OF_MEMORY", r"cudaErrorMemoryAllocation", r"\bCU\w+_STATUS_ALLOC_FAILED")
OTHERS = r"Process (\d+) has ([\d.]+ [KMGT]iB) memory in use"
"""What PyTorch says of another process on a full GPU."""
MIN_SHARE = 0.01
"""Other programs are named if they use at least this share of a device's memory."""
NODE_MEMORY = r"node running low on memory"
"""What Ray says of the memory of the machine."""
NO_HOST_MEMORY = (r"can't allocate memory", r"\bMemoryError\b", r"Cannot allocate memory", r"std::bad_alloc")
NO_DISK = (r"No space left on device", r"[Dd]isk\b.* (?:is|was) full", r"Disk quota exceeded")
LIMIT = r"The kernel ended a process meanwhile because of a memory limit: (.+ \(.+?\))\."
"""As `GROUP_KILLED` says it."""
STOPS_ON_NAN = r"as its setting “Stop on NaN” says\."
IMPORT_ERRORS = frozenset({"ModuleNotFoundError", "ImportError"})
NO_CUDA = (r"CUDA driver's library cannot be used", r"CUDA driver (would|cannot|did|has)", r"asks the CUDA driver",
           r"libcuda\.so", r"sees (0|no) CUDA", r"Torch not compiled with CUDA", r"CUDA driver initialization failed")
NO_FABRIC = (r"\b[Ee]rror:? \(?802\b", r"system not yet initialized", r"\w+_(?:SYSTEM_NOT_READY|SystemNotReady)\b",
             r"cudaErrorSystemNotReady")
MISMATCHED = (r"[Dd]river/library version mismatch", r"API mismatch", r"CUDA driver version is insufficient",
              r"\b[Ee]rror:? \(?80[34]\b", r"unsupported display driver / cuda driver combination",
              r"forward compatibility was attempted on non supported HW")
NO_KERNEL = (r"no kernel image is available", r"cudaErrorNoKernelImageForDevice", r"CUDA_ERROR_NO_BINARY_FOR_GPU")
ASSERTS = (r"device-side assert", r"cudaErrorAssert", r"CUDA_ERROR_ASSERT")
ACCESS = (*ASSERTS, r"an illegal memory access was encountered", r"CUDA_ERROR_ILLEGAL_ADDRESS",
          r"CUDA error: misaligned address")
ASSERTION = r"Assertion `?(.{1,160}?)`? failed"
PORT_IN_USE = (r"EADDRINUSE", r"[Aa]ddress already in use")
PORT = r"(?:[\]*0-9a-z]:|\bport:? |tcp://\S+:)(\d{2,5})\b"
LATE = re.compile(r"\[Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: (?P<work>[^\n]*)")
"""What each rank prints that has waited too long for a collective of NCCL, which `WAITED_FOR` takes apart."""
WAITED_FOR = {"number": r"SeqNum=(\d+)", "operation": r"OpType=_?(\w+?)(?:_BASE)?\b", "limit": r"Timeout\(ms\)=(\d+)"}
GPU_ERRORS = (r"CUDA error\b(?!: (?:device-side assert|no kernel image))", r"CUDA_ERROR_(?!OUT_OF_MEMORY|ASSERT)",
              r"\bcudaError(?!Assert|NoKernelImage)", r"CUDA (driver )?initialization",
              r"cuDNN error", r"CUDNN_STATUS", r"CUBLAS_STATUS_(?!ALLOC_FAILED)", r"\bNCCL\b")
"""What a faulty GPU makes programs say, and others, too: they count only if the driver reports a fault.

An assertion inside a kernel, such as an index out of range, and a wrong build of a framework are not the GPU's.
"""
PROGRAM_XIDS = frozenset({"13", "31", "43", "45"})
"""The Xid errors with which a driver reports, and cleans up after, what a program did. Source: NVIDIA's catalogue."""
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


BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""A variable with which CUDA waits for each kernel, so that an error has the line of its launch."""


class Role(Enum):
    """What a cause says about others."""

    ROOT = "root"
    CASCADE = "cascade"
    """A worker only reports that another one did not come: a root, of that one or in the same log, wins over it."""
    CONFIRMATION = "confirmation"
    """It is no cause of its own, and adds its sentence to that of the cause."""


class Row(NamedTuple):
    """A cause of failures: which evidence shows it, and the words for it."""

    cause: Cause
    applies: Callable[[FailureEvidence], bool]
    words: Callable[[FailureEvidence], tuple[str, str]]
    """Returns the title and the sentence."""
    short: str = ""
    """The cause in a few words, for a list."""
    is_explained: bool = False
    """Whether the sentence says what helps, and the exception does not."""
    role: Role = Role.ROOT


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
        own = {tr("this run"): size(facts.peaks[device].peak_bytes)} if device in facts.peaks else {}
        if release is None or release.peak_bytes is None or not total:
            texts += [tr("This run itself had taken {size}.", size=each) for each in own.values()]
            continue
        sentence = tr_noop("{label}: {peak:.1f} of {total:.1f} GB were in use at most{whose}.")
        if len(evidence.devices) == 1:
            sentence = tr_noop("{peak:.1f} of {total:.1f} GB were in use at most{whose}.")
        peak, label = release.peak_bytes / BYTES_PER_GB, evidence.labels.get(device, device)
        held = {f"pid {pid}": amount.replace("iB", "B") for pid, amount in re.findall(OTHERS, facts.traceback or "")}
        if not held and (used := release.before_bytes or 0) >= MIN_SHARE * total:
            held = {tr("others before the run"): size(used)}
        whose = join_names(tr("{size} by {who}", size=used, who=who) for who, used in (own | held).items())
        whose = whose and f"{': ' if own else ', '}{whose}"
        texts.append(tr(sentence, label=label, peak=peak, total=total / BYTES_PER_GB, whose=whose))
    return join_sentences(texts)


def _host_memory(evidence: FailureEvidence) -> tuple[str, str]:
    own = sum(each.peak_bytes for name, each in evidence.facts.peaks.items() if name.startswith("cpu:"))
    return (
        tr("The machine ran out of memory{step}", step=evidence.step),
        join_sentences([tr("This run itself had taken {size}.", size=size(own)) if own else None, tr(
            "There was not enough main memory for the next allocation. Try a smaller batch or fewer data-loader "
            "workers, or end other programs."
        )]),
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
    title = tr("The loss was no longer a number at step {step}", step=step) if step else tr(
        "The loss was no longer a number")
    of_recipe = evidence.kind == "NotFiniteError"
    search = tr("`trainyard doctor RUN --first-nan` finds the layer that made it.") if of_recipe else ""
    return title, join_sentences([tr(evidence.message), search])


def _killed(evidence: FailureEvidence) -> tuple[str, str]:
    on = tr(" on {where}", where=evidence.where) if evidence.where else ""
    if evidence.has(KERNEL_KILLED):
        return tr("The machine ran out of memory{step}", step=evidence.step), tr(
            "The kernel ended the training process{on} to free memory. Try a smaller batch or fewer "
            "data-loader workers, or end other programs. Its log names what it ended: "
            "journalctl -k | grep -i 'killed process'", on=on,
        )
    return tr("A process was killed from outside{step}", step=evidence.step), tr(
        "The training process{on} was ended by SIGKILL, which this run did not send. Most often the system "
        "does this when the machine runs out of memory. Its log says so: "
        "journalctl -k | grep -i 'killed process'", on=on,
    )


def _limit(evidence: FailureEvidence) -> tuple[str, str]:
    size, _, file = evidence.found(LIMIT).rstrip(")").partition(" (")
    return tr("The run reached its memory limit of {size}{step}", size=size, step=evidence.step), tr(
        "The kernel ended a process of the run, since its control group may use no more main memory ({file}). Raise "
        "that limit (docker run --memory, MemoryMax of systemd, --mem of Slurm), or try a smaller batch or fewer "
        "data-loader workers.", file=file,
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


def _has_program_fault(evidence: FailureEvidence) -> bool:
    """Return whether the driver has reported errors, and only such as a program causes."""
    told = [each.english for text in evidence.facts.faults.values() for each in Message.read(text).sentences]
    found = re.findall(r"\(Xid (\d+)\)", " ".join(told))
    return bool(found) and PROGRAM_XIDS.issuperset(found) and len(told) == 2 * len(found)  # each with its remedy


def _fabric(_: FailureEvidence) -> tuple[str, str]:
    return tr("The connection between the GPUs is not set up"), tr(
        "CUDA says that the system is not ready (error 802). Servers with NVSwitch need NVIDIA's fabric manager in the "
        "driver's version: systemctl status nvidia-fabricmanager. Without NVSwitch, see the notes on this error in the "
        "release notes of CUDA."
    )


def _mismatch(evidence: FailureEvidence) -> tuple[str, str]:
    return tr("The driver does not fit"), join_sentences([
        tr(first_sentence(evidence.message)),
        tr("After an update of the driver, restart the machine. Otherwise the driver is too old for this CUDA: update "
           "it, or choose a Python whose framework is built for an older CUDA."),
    ])


def _no_kernel(evidence: FailureEvidence) -> tuple[str, str]:
    return tr("The framework is not built for {where}", where=evidence.where or tr("this GPU")), tr(
        "{python} has a framework without kernels for this GPU. Choose another Python, or install a build for it "
        "there. trainyard check --quick says which Python fits which GPU.",
        python=evidence.spec.python if evidence.spec else tr("The Python of this run"),
    )


def _access(evidence: FailureEvidence) -> tuple[str, str]:
    where = evidence.where or tr("A GPU")
    late = tr("GPUs report such an error late, so that the line may be a wrong one: with {setting} in the environment "
              "it is the right one.", setting=f"{BLOCKING}=1")
    if not evidence.told(*ASSERTS):
        return tr("A kernel on {where} used memory that it must not", where=where), join_sentences([
            tr("Most often an index or a library's own kernel is wrong."), late,
        ])
    failed = next(reversed(re.findall(ASSERTION, evidence.log_end)), "")
    what = tr("The assertion {text} failed.", text=failed) if failed else None
    often = tr("Most often a label or an index is larger than the number of classes or rows.")
    return tr("An assertion failed on {where}", where=where), join_sentences([what, often, late])


def _waited(evidence: FailureEvidence) -> tuple[str, str]:
    """Name who was late, as far as the workers that waited tell it. Source: `ProcessGroupNCCL.cpp` of PyTorch."""
    first = dict[int, dict[str, str]]()
    for found in LATE.finditer(f"{evidence.error}\n{evidence.log_end}"):
        each = {name: match[1] for name, pattern in WAITED_FOR.items() if (match := re.search(pattern, found["work"]))}
        first.setdefault(int(found["rank"]), each)
    title, ranks = tr("A worker waited in vain for another one"), range(len(evidence.facts.devices))
    if not first:
        return title, tr("The other one hung, or ended first. Its own error, if it printed one, is above in the log.")
    any_of = next(iter(first.values()))
    said = tr("{operation} took longer than its limit of {seconds} s.", operation=any_of.get("operation", "NCCL"),
              seconds=int(any_of.get("limit", 0)) // 1000)
    numbers = {rank: int(each["number"]) for rank, each in first.items() if "number" in each}
    least = min(numbers.values(), default=0)
    behind = [rank for rank, number in numbers.items() if number == least]
    silent = [rank for rank in ranks if rank not in first]
    # Only an end far below the limit is surely the whole log: else a report may stand above it.
    is_whole = len(evidence.log_end) < LOG_BYTES // 2
    late = silent if 2 * len(silent) < len(ranks) and is_whole else []
    if late:
        who = tr_plural("Worker {ranks} reported nothing: it hung, or had ended.",
                        "Workers {ranks} reported nothing: they hung, or had ended.", len(late), ranks=_numbers(late))
    elif 2 * len(behind) < len(numbers):
        who = tr_plural("Worker {ranks} was behind the others, at collective {number}.",
                        "Workers {ranks} were behind the others, at collective {number}.", len(behind),
                        ranks=_numbers(behind), number=least)
    elif not silent:
        who = tr("All workers waited: they may have called different collectives, or the connection hangs.")
    else:
        who = tr("Which worker was late is not known.")
    return title, join_sentences([said, who, tr("What they printed before is further up in the log.")])


def _numbers(ranks: Sequence[int]) -> str:
    return join_names(map(str, ranks))


def _port(evidence: FailureEvidence) -> tuple[str, str]:
    number = evidence.found(PORT)
    return tr("Port {number} is in use", number=number) if number else tr("A port is in use"), tr(
        "Another program listens there, often another training. Give this one another port, as with --master_port or "
        "MASTER_PORT, or leave the port out: each run here has a free one."
    )


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


ROWS = (
    Row(Cause.LOST, lambda each: each.facts.state is RunState.LOST, _lost),
    Row(Cause.HEAD_LOST, lambda each: each.facts.state is RunState.HEAD_LOST, lambda each: (
        tr("The machine that has this run was lost"),
        join_sentences([tr(each.error), tr("Resume the run there. This part of it can be removed.")]),
    )),
    Row(Cause.FRAMEWORK, lambda each: each.kind == "FrameworkError",
        lambda each: (tr("The framework could not be loaded"), tr(each.message))),
    Row(Cause.LIMIT, lambda each: each.has(LIMIT), _limit, short=tr_noop("memory limit"), is_explained=True),
    Row(Cause.DEVICE_MEMORY, lambda each: each.has(*NO_MEMORY) and not _is_on_host(each), _device_memory,
        short=tr_noop("out of memory")),
    Row(Cause.HOST_MEMORY, lambda each: each.has(*NO_HOST_MEMORY) or each.has(*NO_MEMORY), _host_memory,
        short=tr_noop("machine out of memory")),
    Row(Cause.DEVICE_NUMBER, lambda each: each.has(*NO_DEVICE), _device_number, is_explained=True),
    Row(Cause.LOCAL_RANK, lambda each: bool(each.found(LOCAL_RANK_ARGUMENT)), _local_rank, is_explained=True),
    Row(Cause.TERMINAL, lambda each: bool(each.found(TERMINAL_SIZE)) and (
        each.kind == "ValueError" or each.has(NO_TERMINAL)), _terminal, is_explained=True),
    Row(Cause.TENSORFLOW_1, lambda each: each.has(TENSORFLOW_1), _tensorflow_1,
        short=tr_noop("needs TensorFlow 1"), is_explained=True),
    Row(Cause.MISSING_MODULE, lambda each: each.kind in IMPORT_ERRORS and each.has(NO_MODULE), _missing_module,
        short=tr_noop("module {module} is missing")),
    Row(Cause.ACCESS, lambda each: _has_program_fault(each) and each.told(*GPU_ERRORS, *ACCESS), lambda each: (
        "", join_sentences([tr("The driver reports it, too:"), *each.facts.faults.values()])), role=Role.CONFIRMATION),
    Row(Cause.FAULT, lambda each: bool(each.facts.faults) and each.told(*GPU_ERRORS) and not _has_program_fault(each),
        _fault, short=tr_noop("faulty GPU")),
    Row(Cause.FABRIC, lambda each: each.told(*NO_FABRIC), _fabric, short=tr_noop("fabric manager"), is_explained=True),
    Row(Cause.MISMATCH, lambda each: each.told(*MISMATCHED), _mismatch,
        short=tr_noop("driver does not fit"), is_explained=True),
    Row(Cause.NO_KERNEL, lambda each: each.told(*NO_KERNEL), _no_kernel,
        short=tr_noop("not built for this GPU"), is_explained=True),
    Row(Cause.ACCESS, lambda each: each.told(*ACCESS), _access, short=tr_noop("illegal access"), is_explained=True),
    Row(Cause.PORT, lambda each: each.has(*PORT_IN_USE), _port, short=tr_noop("port in use"), is_explained=True),
    Row(Cause.WAITED, lambda each: each.is_cascade, _waited, short=tr_noop("waited in vain"), is_explained=True,
        role=Role.CASCADE),
    Row(Cause.CUDA, lambda each: each.has(*NO_CUDA),
        lambda each: (tr("The GPUs cannot be used by CUDA"), tr(each.message or each.error)),
        short=tr_noop("no CUDA")),
    Row(Cause.DISK, lambda each: each.has(*NO_DISK), lambda each: (tr("The disk is full"), tr(each.error)),
        short=tr_noop("disk full")),
    Row(Cause.NOT_FINITE, lambda each: each.kind == "NotFiniteError" or each.has(STOPS_ON_NAN), _not_finite,
        short=tr_noop("loss not a number")),
    Row(Cause.KILLED, lambda each: _signal_of(each) == "SIGKILL", _killed, short=tr_noop("killed from outside")),
    Row(Cause.SIGNAL, lambda each: bool(_signal_of(each)), _signal),
    Row(Cause.CODE, lambda each: bool(each.kind),
        lambda each: (each.kind, tr(first_sentence(each.message)) or tr("It has no message."))),
    Row(Cause.EXIT, lambda each: each.has(r"ended with exit code \d+"), lambda each: (
        tr("The program ended with exit code {code}", code=each.found(r"ended with exit code (\d+)")), tr(each.error),
    )),
    Row(Cause.OTHER, lambda _: True, lambda each: (tr("The run failed"), tr(each.error))),
)
"""The causes, the most certain first; the last applies to every failure."""


def _is_on_host(evidence: FailureEvidence) -> bool:
    """Return whether memory of the machine was missing: the run has CPU devices only, or Ray says so."""
    if evidence.has(NODE_MEMORY):
        return True
    devices = evidence.devices or tuple(evidence.facts.devices)
    return bool(devices) and all(each.startswith("cpu:") for each in devices)


def row_of(evidence: FailureEvidence) -> Row:
    """Return the row of the most certain cause."""
    roles = {Role.ROOT} if evidence.others else {Role.ROOT, Role.CASCADE}
    return next(row for row in ROWS if row.role in roles and row.applies(evidence))
