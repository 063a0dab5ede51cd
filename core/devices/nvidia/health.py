"""What the driver says about the health of one GPU: a row for each question, with what is wrong and what helps.

NVIDIA describes the answers in the reference of NVML, in "GPU memory error management" (recovery actions, rows and
pages of memory), and in its catalogue of Xid errors. Not tried on a faulty GPU. Runs in a helper process only.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.device import Device
from core.devices.nvidia.nvml import Handle, words
from core.language import tr, tr_noop

UNCORRECTED = 1
FABRIC_UNKNOWN, FABRIC_COMPLETED, FABRIC_FAILED = 0, 3, 4
"""States of NVML; the last is our own, for a registration that was completed with an error."""
UNREPAIRABLE_VERSION = 0x1000008
MAX_XIDS = 100

ABSENT = frozenset({
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_DEPRECATED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,  # a field that this driver does not know, or a MIG device
})
"""Errors of questions that do not apply to a GPU or a driver."""


class Answer(TypedDict, total=False):
    """The answer to one question; empty if the question does not apply to this GPU or driver."""

    value: int
    could_not: str
    """NVML's words for why it cannot be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRow:
    """One question."""

    id: str
    question: Callable[[Handle], int | None]
    """Asks it of a GPU's handle. None: it does not apply. Raises `pynvml.NVMLError`."""
    well: frozenset[int] | None = frozenset({0})
    """The values of a healthy GPU; None: all values are information."""
    words: str = ""
    """A sentence of what is wrong, with the fields `device` (its label) and `value`."""
    remedy: str = ""
    """A sentence of what helps, with the field `bus`: the address of the GPU, as nvidia-smi accepts it."""
    values: Mapping[int, str] = field(default_factory=dict)
    """Values in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong with a GPU."""

    id: str
    """The id of the row, or `xid`."""
    sentence: str
    remedy: str


def health(handle: Handle, report_alive: Callable[[], None] = lambda: None) -> dict[str, Answer]:
    """Return the answers by the ids of their rows, ready for JSON. `report_alive` is called after each question.

    After an error of the GPU itself nothing more is asked: its handle may be stale, and the caller must get a new one.
    """
    answers: dict[str, Answer] = {}
    for row in ROWS:
        try:
            value = row.question(handle)
        except pynvml.NVMLError as error:
            answers[row.id] = {} if error.value in ABSENT else {"could_not": words(error)}
            if error.value not in ABSENT | {pynvml.NVML_ERROR_NO_PERMISSION}:
                return {each.id: Answer(could_not=words(error)) for each in ROWS} | answers
        else:
            answers[row.id] = {} if value is None else {"value": value}
        report_alive()
    return answers


def problems(answers: Mapping[str, Answer], device: Device) -> list[Problem]:
    """Return what is wrong with a GPU by its answers."""
    known = [(row, answers[row.id]["value"]) for row in ROWS if "value" in answers.get(row.id, {})]
    return [
        _problem(row.id, device, row.words, row.remedy, tr(row.values[value]) if value in row.values else value)
        for row, value in known
        if row.well is not None and value not in row.well
    ]


def xid_problem(number: int, device: Device) -> Problem:
    """Return in words what an Xid error of a GPU means."""
    return _problem("xid", device, *XIDS.get(number, OTHER_XID), number)


def _problem(row_id: str, device: Device, sentence: str, remedy: str, value: str | int) -> Problem:
    return Problem(
        id=row_id, sentence=tr(sentence, device=device.label, value=value),
        remedy=tr(remedy, bus=device.pci_bus_id or device.id),
    )


class XidEvents:
    """The Xid errors of one GPU from now on, without the kernel's log and its rights."""

    def __init__(self, handle: Handle) -> None:
        """Raises `pynvml.NVMLError` if the driver does not report them."""
        self._set = pynvml.nvmlEventSetCreate()
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except pynvml.NVMLError:
            self.close()
            raise

    def take(self) -> list[int]:
        """Return the errors since the last call, without waiting. Raises `pynvml.NVMLError`."""
        found: list[int] = []
        try:
            while len(found) < MAX_XIDS:
                found.append(int(pynvml.nvmlEventSetWait_v2(self._set, 0).eventData))
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_TIMEOUT and not found:  # a GPU may be lost after its last error
                raise
        return found

    def close(self) -> None:
        """Give the driver's memory of the events back."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._set)


# -- the questions -----------------------------------------------------------------------------------


def _ask(name: str, *arguments: int, item: int | None = None) -> Callable[[Handle], int]:
    """Return the question that is a function of pynvml; `item`: the place in its answer, if it has several."""

    def ask(handle: Handle) -> int:
        answer = getattr(pynvml, name)(handle, *arguments)
        return int(answer if item is None else answer[item])

    return ask


def _recovery_action(handle: Handle) -> int:
    (found,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if found.nvmlReturn:
        raise pynvml.NVMLError(found.nvmlReturn)
    return int(found.value.uiVal)


def _unrepairable(handle: Handle) -> int:
    # pynvml 13 expects a version before the flag, which nvml.h of CUDA 13 does not have, and would always find 0.
    function = getattr(pynvml.nvmlLib, "nvmlDeviceGetUnrepairableMemoryFlag_v1", None)
    if function is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    answer = (ctypes.c_uint * 2)(UNREPAIRABLE_VERSION, 0)
    if code := function(handle, answer):
        raise pynvml.NVMLError(code)
    return int(answer[1] if answer[0] == UNREPAIRABLE_VERSION else answer[0])


def _fabric(handle: Handle) -> int | None:
    info = pynvml.c_nvmlGpuFabricInfoV_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    state = int(info.state) & 0xFF  # a byte in nvml.h, and a larger number in pynvml
    if state == FABRIC_COMPLETED and info.status:
        return FABRIC_FAILED
    return None if state == FABRIC_UNKNOWN else state


RESET = tr_noop("When its runs are over, reset it (nvidia-smi --gpu-reset -i {bus}, as root) or restart the machine.")
REPLACE = tr_noop("Ask the seller of the card or of the machine for a replacement.")

ROWS = (
    HealthRow(id="recovery-action", question=_recovery_action,
              words=tr_noop("The driver says that {device} needs {value} (its recovery action)."),
              remedy=tr_noop("End what runs on it first. The command for a reset: "
                             "nvidia-smi --gpu-reset -i {bus}, as root."),
              values={1: tr_noop("a reset"), 2: tr_noop("a restart of the machine"),
                      3: tr_noop("an end of all transfers between GPUs"),
                      4: tr_noop("a reset once its programs have ended"),
                      5: tr_noop("a repair of its NVLink domain (IMEX)"),
                      6: tr_noop("a reset of its PCIe slot"), 7: tr_noop("a restart of the machine")}),
    HealthRow(id="remap-failure", question=_ask("nvmlDeviceGetRemappedRows", item=3), remedy=REPLACE,
              words=tr_noop("A faulty row of the memory of {device} could not be replaced by a spare one.")),
    HealthRow(id="remap-pending", question=_ask("nvmlDeviceGetRemappedRows", item=2), remedy=RESET,
              words=tr_noop("A faulty row of the memory of {device} is only replaced by its next reset.")),
    HealthRow(id="retired-pages", question=_ask("nvmlDeviceGetRetiredPagesPendingStatus"), remedy=RESET,
              words=tr_noop("A faulty page of the memory of {device} is only retired by its next reset.")),
    HealthRow(id="ecc-errors", remedy=RESET,
              question=_ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, pynvml.NVML_VOLATILE_ECC),
              words=tr_noop("Memory errors of {device} since the driver was loaded that could not be corrected: "
                            "{value}.")),
    # No problem: memory that failed in earlier years has been replaced since.
    HealthRow(id="ecc-errors-ever", well=None,
              question=_ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, pynvml.NVML_AGGREGATE_ECC)),
    HealthRow(id="unrepairable-memory", question=_unrepairable, remedy=REPLACE,
              words=tr_noop("The driver says that the memory of {device} cannot be repaired.")),
    HealthRow(id="compute-mode", question=_ask("nvmlDeviceGetComputeMode"),
              words=tr_noop("{device} admits {value} (its compute mode), so runs may fail to start on it."),
              remedy=tr_noop("Set the mode back, as root: nvidia-smi -i {bus} -c DEFAULT"),
              values={1: tr_noop("one thread at a time"), 2: tr_noop("no program"),
                      3: tr_noop("one process at a time")}),
    HealthRow(id="fabric", question=_fabric, well=frozenset({FABRIC_COMPLETED}),
              words=tr_noop("{device} has not joined the NVLink fabric of this machine ({value}): CUDA fails (802)."),
              remedy=tr_noop("Start the fabric manager in the version of the driver: "
                             "systemctl restart nvidia-fabricmanager, as root."),
              values={1: tr_noop("not started"), 2: tr_noop("in progress"), FABRIC_FAILED: tr_noop("failed")}),
    HealthRow(id="persistence-mode", question=_ask("nvmlDeviceGetPersistenceMode"), well=None),
    HealthRow(id="mig-mode", question=_ask("nvmlDeviceGetMigMode", item=0), well=None),
    HealthRow(id="virtualisation-mode", question=_ask("nvmlDeviceGetVirtualizationMode"), well=None),
    HealthRow(id="gsp-firmware", question=_ask("nvmlDeviceGetGspFirmwareMode", item=0), well=None),
)
"""The questions, the gravest first."""

PROGRAM = tr_noop("Look for an error in the program: with CUDA_LAUNCH_BLOCKING=1 its traceback names the right line.")
SEAT = tr_noop("Check its power cables, its seat in the slot and its cooling, and restart the machine.")
FIRMWARE = tr_noop("Restart the machine. If the error comes back, install another version of the driver.")
OTHER_XID = (
    tr_noop("The driver reported an error of {device} (Xid {value})."),
    tr_noop("NVIDIA's catalogue of Xid errors says what the number means."),
)
XIDS = {
    13: (tr_noop("A kernel failed on {device}, often by an index out of range (Xid {value})."), PROGRAM),
    31: (tr_noop("A program used memory of {device} that is not its own (Xid {value})."), PROGRAM),
    43: (tr_noop("{device} ended the work of a program after an error (Xid {value})."), PROGRAM),
    45: (tr_noop("The driver removed the work of a program from {device} after an error, or when the program ended "
                 "(Xid {value})."), PROGRAM),
    48: (tr_noop("An error in the memory of {device} could not be corrected (Xid {value})."), RESET),
    61: (tr_noop("A controller inside {device} stopped at an error (Xid {value})."), FIRMWARE),
    62: (tr_noop("A controller inside {device} halted (Xid {value})."), FIRMWARE),
    63: (tr_noop("A faulty part of the memory of {device} was marked to be replaced (Xid {value})."), RESET),
    64: (tr_noop("A faulty part of the memory of {device} could not be marked as such (Xid {value})."), REPLACE),
    74: (tr_noop("NVLink failed on {device} (Xid {value})."), SEAT),
    79: (tr_noop("{device} does not answer on the PCIe bus any more (Xid {value})."), SEAT),
    94: (tr_noop("An error in the memory of {device} hit one program (Xid {value})."), RESET),
    95: (tr_noop("An error in the memory of {device} hit all programs on it (Xid {value})."), RESET),
    119: (tr_noop("The firmware (GSP) of {device} does not answer (Xid {value})."), FIRMWARE),
    120: (tr_noop("The firmware (GSP) of {device} failed (Xid {value})."), FIRMWARE),
    143: (tr_noop("{device} could not be initialised (Xid {value})."), SEAT),
}
"""By number, the sentence and the remedy of the most common errors."""
