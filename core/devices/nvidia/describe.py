"""What an NVIDIA device is: its ids, its names, its kind of memory, and the MIG devices it was cut into.

From NVIDIA's documentation of NVML, and for integrated GPUs from reports of their owners (nvtop PR 411, nvitop
PR 208, gpud PR 1170, gpustat PR 179); none of it was run on such a machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.device import Device
from core.devices.nvidia.nvml import NEVER, memory_total_bytes, or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from core.devices.nvidia.card import Card
    from core.devices.nvidia.nvml import Handle

INTEGRATED = ("GB10", "N1X", "Orin", "Thor", "Tegra", "Xavier")
"""In the names of GPUs without memory of their own: some drivers report a part of the host's as if it were."""

# A MIG device that is not there: an index may be free, and a device may be taken away while it is described.
NO_SUCH = frozenset({
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
})  # fmt: skip
MIG_MODE_ON = 1
NO_MEMORY = "no memory of its own"


def describe(index: int, handle: Handle, beat: Callable[[], None]) -> Device:
    """The GPU of an index; `beat` is called after each question. Raises `pynvml.NVMLError` when it does not answer."""
    told = _ask(QUESTIONS, handle, beat)
    memory = told["memory"]
    integrated = memory in {NO_MEMORY, 0} or any(word in told["name"] for word in INTEGRATED)
    return Device(
        id=told["uuid"],
        kind="nvidia",
        label=f"GPU {index}",
        name=told["name"],
        memory_total_bytes=None if integrated else memory,
        pci_bus_id=told["pci"],
        minor=told["minor"],
        # Where the GPU is a NUMA node its memory is the system's to give away, and is not let go of at a process's
        # end: NVML's known issues.
        shared_memory=integrated or told["numa node"] is not None,
    )


def in_mig_mode(handle: Handle) -> bool:
    """Whether a GPU is cut into MIG devices, or may be. Raises `pynvml.NVMLError`."""
    mode = or_none(pynvml.nvmlDeviceGetMigMode, handle)
    return mode is not None and mode[0] == MIG_MODE_ON


def with_mig_mode(device: Device, index: int, on: bool) -> Device:
    """The GPU with its mode as it is now."""
    return replace(device, blocked=_mig_sentence(device.label, index) if on else None)


def mig_devices(gpu: Card, beat: Callable[[], None]) -> Iterator[tuple[Device, Handle]]:
    """The MIG devices of a GPU, with their handles. Raises `pynvml.NVMLError` when the GPU does not answer."""
    count = pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu.handle)
    beat()
    for number in range(count):
        try:
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, number)
            beat()
            told = _ask(MIG_QUESTIONS, mig, beat)
        except pynvml.NVMLError as error:
            if error.value in NO_SUCH:
                continue
            raise
        yield _mig_device(gpu.device, number, told), mig


def _mig_device(gpu: Device, number: int, told: dict[str, Any]) -> Device:
    return Device(
        id=told["uuid"],
        kind="nvidia",
        label=f"{gpu.label} MIG {number}",
        name=told["name"],
        memory_total_bytes=told["memory"] if isinstance(told["memory"], int) else None,
        pci_bus_id=gpu.pci_bus_id,
        # No minor: /dev/nvidiaN is that of the whole GPU, and does not tell its MIG devices apart.
        shared_memory=gpu.shared_memory,
    )


def _ask(
    questions: tuple[tuple[str, Callable[[Handle], Any]], ...], handle: Handle, beat: Callable[[], None]
) -> dict[str, Any]:
    told = {}
    for name, question in questions:
        told[name] = question(handle)
        beat()
    return told


def _memory(handle: Handle) -> int | str | None:
    """All memory in bytes; None where this driver cannot tell."""
    try:
        return memory_total_bytes(handle)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
            return NO_MEMORY  # what GB10 and Jetson answer
        if error.value in NEVER:
            return None
        raise


def _numa_node(handle: Handle) -> int | None:
    ask = getattr(pynvml, "nvmlDeviceGetNumaNodeId", None)  # younger than the oldest binding we take
    try:
        return None if ask is None else int(ask(handle))
    except pynvml.NVMLError as error:
        if error.value in NEVER | NO_SUCH:
            return None
        raise


def _pci_bus_id(handle: Handle) -> str:
    """As the kernel writes it, `0000:01:00.0`: NVML's own has a longer domain."""
    pci = pynvml.nvmlDeviceGetPciInfo_v3(handle)
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _mig_sentence(label: str, index: int) -> str:
    return (
        f"{label} is in MIG mode and cannot be used as a whole: tick a MIG device of it. "
        f"Where none is listed, make one (nvidia-smi mig -i {index} -cgi ... -C), "
        f"or switch the mode off (nvidia-smi -i {index} -mig 0)."
    )


UUID = ("uuid", pynvml.nvmlDeviceGetUUID)
NAME = ("name", pynvml.nvmlDeviceGetName)
MEMORY = ("memory", _memory)
QUESTIONS: tuple[tuple[str, Callable[[Handle], Any]], ...] = (
    UUID, NAME, MEMORY,
    ("pci", lambda handle: or_none(_pci_bus_id, handle)),
    ("minor", lambda handle: or_none(pynvml.nvmlDeviceGetMinorNumber, handle)),
    ("numa node", _numa_node),
)  # fmt: skip
MIG_QUESTIONS: tuple[tuple[str, Callable[[Handle], Any]], ...] = (UUID, NAME, MEMORY)
