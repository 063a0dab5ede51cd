"""What the driver says about one GPU on demand, in words. It is asked in a process that ends with its answer."""

from __future__ import annotations

import contextlib
from pathlib import Path

from core.check.check import Driver, Outcome, State
from core.check.gpu_work import LINK
from core.check.machine import HARDWARE_XIDS, is_error
from core.devices.device import Device
from core.devices.nvidia.health import ROWS, problems, xid_problem
from core.doctor.sources import XID, kernel_messages
from core.errors import RunError
from core.language import tr, tr_noop
from core.text import size

TITLES = {
    "recovery-action": tr_noop("Recovery action"), "ecc-errors": tr_noop("Uncorrected memory errors since the start"),
    "ecc-errors-ever": tr_noop("Uncorrected memory errors ever"),
    "remap-pending": tr_noop("Rows of memory to replace"), "remap-failure": tr_noop("Rows not replaced"),
    "retired-pages": tr_noop("Pages of memory to retire"), "unrepairable-memory": tr_noop("Memory beyond repair"),
}
"""Of the questions about health, those that are also answered where nothing is wrong, by row."""
SETTING, NONE, NOT_TOLD = tr_noop("Setting"), tr_noop("none"), tr_noop("the driver does not tell it")
REPLACED = {"replaced": ["nvmlDeviceGetRemappedRows"]}
TRAFFIC = {way: ["nvmlDeviceGetPcieThroughput", constant] for way, constant in
           (("received", "NVML_PCIE_UTIL_RX_BYTES"), ("sent", "NVML_PCIE_UTIL_TX_BYTES"))}
HealthLine = tuple[str, State, str]
"""A title, and what the driver says and what helps, or why it is not known."""


def look(device: Device, told: str = "", *, traffic: bool = False, root: Path = Path("/")) -> list[HealthLine]:
    """Return the health of a GPU. Raises `ValueError` with a sentence if it cannot be asked.

    `told`: what its driver has reported of it during a run; `traffic`: also measure what it moves over its link now,
    which keeps the driver busy for some 20 ms a way.
    """
    try:
        with contextlib.closing(Driver()) as driver:
            health = driver.ask(health=True, only=device.id)[device.id]
            calls = driver.ask(each=LINK | REPLACED | (TRAFFIC if traffic else {}), only=device.id)[device.id]
    except KeyError as error:
        raise ValueError(tr("The driver does not list {label} any more.", label=device.label)) from error
    except Outcome as outcome:
        raise ValueError(f"{outcome}. {outcome.remedy}".strip()) from outcome
    wrong = {each.id: f"{each.sentence} {each.remedy}" for each in problems(health, device)}
    found: list[HealthLine] = []
    for row, answer in ((row.id, health[row.id]) for row in ROWS):
        title, value = tr(TITLES.get(row, SETTING)), answer.get("value")
        if row in wrong:
            found.append((title, State.PROBLEM, wrong[row]))
        elif "could_not" in answer and row in TITLES:
            found.append((title, State.COULD_NOT, tr("the driver says “{words}”", words=answer["could_not"])))
        elif row in TITLES:
            found.append((title, State.PASS, tr(NOT_TOLD) if value is None else str(value or tr(NONE))))
    known = {name: answer for name, answer in calls.items() if not is_error(answer)}
    replaced, link, moved = (tr(NOT_TOLD),) * 3 if traffic else (tr(NOT_TOLD), tr(NOT_TOLD), tr("not measured"))
    if "replaced" in known:
        replaced = str(sum(known["replaced"][:2]) or tr(NONE))
    if LINK.keys() - known.keys() <= {"replays"}:
        link = tr("generation {generation} with {width} lanes, of {max_generation} with {max_width}", **known)
    if TRAFFIC.keys() <= known.keys():
        moved = tr("{received} received and {sent} sent by the GPU",
                   **{way: f"{size(1000 * known[way])}/s" for way in TRAFFIC})
    return [*found, (tr("Rows of memory replaced"), State.PASS, replaced),
            (tr("Last Xid error"), *_xid(device, told, root)), (tr("PCIe link"), State.PASS, link),
            (tr("PCIe traffic"), State.PASS, moved)]


def _xid(device: Device, told: str, root: Path) -> tuple[State, str]:
    try:
        messages = kernel_messages(root)
    except RunError as error:
        return (State.PROBLEM, told) if told else (State.COULD_NOT, str(error))
    if not device.pci_bus_id:
        return (State.PROBLEM, told) if told else (State.COULD_NOT, tr(NOT_TOLD))
    found = [int(each["number"]) for each in XID.finditer(messages) if each["place"].lower() in device.pci_bus_id]
    if not found:
        return (State.PROBLEM, told) if told else (State.PASS, tr("no Xid in the kernel's log, as far as it is kept"))
    last, state = xid_problem(found[-1], device), State.PROBLEM if found[-1] in HARDWARE_XIDS else State.PASS
    return state, f"{last.sentence} {last.remedy}"
