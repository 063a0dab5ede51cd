"""What NVML, the NVIDIA driver's own library, is asked about one device, and its errors in words.

From NVIDIA's documentation of NVML and from other people's reports; for integrated GPUs those of nvtop PR 411,
nvitop PR 208, gpud PR 1170 and gpustat PR 179. The tests use a stand-in for the library.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.device import Device
from core.devices.reader import KERNEL_LOG, DriverError, Tier
from core.language import tr, tr_noop

Handle = Any
"""NVML's handle of a device, which is opaque."""

NOT_AVAILABLE = 2**64 - 1
"""NVML's 64-bit value for an unknown number."""

SHARES_US = 1_000_000
"""Microseconds back to which the shares of processes are asked for."""

NEVER = frozenset({
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
})
"""Errors of readings that this device or driver does not have, and will not have while it runs."""
NOT_NOW = frozenset({
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_NOT_READY,
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE,  # processes were started between asking for their number and their list
})
"""Errors of readings that are missing this time, while the device is well."""
NO_SUCH = frozenset({
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
})
"""Errors for a MIG device that does not exist: an index may be free, and a device may be removed at any time."""

REMEDIES = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: tr_noop("Load the driver (modprobe nvidia), or reboot."),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: tr_noop("It was updated while in use: reboot, or reload the driver."),
    pynvml.NVML_ERROR_NO_PERMISSION: tr_noop("Ask for the right to open /dev/nvidia* (often the group video)."),
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: tr_noop("Install libnvidia-ml.so.1, which comes with the driver."),
}
INTEGRATED = ("GB10", "N1X", "Orin", "Thor", "Tegra", "Xavier")
"""Parts of the names of GPUs without own memory; some drivers report a part of the host's memory as theirs."""
NO_MEMORY = "no memory of its own"
MIG_MODE_ON = 1

CLOCK_REASONS = (
    (pynvml.nvmlClocksThrottleReasonHwSlowdown, tr_noop("hardware slowdown")),
    (pynvml.nvmlClocksThrottleReasonSwThermalSlowdown, tr_noop("too hot")),
    (pynvml.nvmlClocksThrottleReasonHwThermalSlowdown, tr_noop("far too hot")),
    (pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown, tr_noop("power supply")),
    (pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting, tr_noop("clocks set by the user")),
    (pynvml.nvmlClocksThrottleReasonSyncBoost, tr_noop("kept in step with other GPUs")),
    (pynvml.nvmlClocksThrottleReasonDisplayClockSetting, tr_noop("display setting")),
)
"""Reasons for low clocks. Left out are being idle, and the power cap, which all GPUs reach under load."""


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """A reading of a device, and the functions that give it: drivers of different ages have different ones."""

    name: str
    tier: Tier
    functions: tuple[Callable[[Handle], Any], ...]


# -- readings ------------------------------------------------------------------------------------


def utilisation_percent(handle: Handle) -> float | None:
    """Return the share of the last moments in which any kernel ran."""
    percent = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    return float(percent) if percent <= 100 else None  # drivers do return garbage above 100


def memory_used_bytes(handle: Handle) -> int | None:
    """Return the memory in use, without the driver's own reserve."""
    # The older call counts the reserve as used: up to a gigabyte on an idle GPU.
    return _known(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)


def memory_total_bytes(handle: Handle) -> int | None:
    """Return the size of the device's memory."""
    return _known(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).total)


def _power_limit_watts(handle: Handle) -> float | None:
    milliwatts = pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)
    return float(milliwatts) / 1000 if milliwatts else None


def _shares(handle: Handle) -> dict[int, float | None]:
    """Return by pid the share of the last second in which its kernels ran, of those that had any.

    NVML leaves out the others: see nvmlDeviceGetProcessUtilization in its documentation.
    """
    try:
        found = pynvml.nvmlDeviceGetProcessUtilization(handle, time.time_ns() // 1000 - SHARES_US)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_FOUND:
            return {}
        raise
    return {each.pid: float(each.smUtil) if each.smUtil <= 100 else None for each in found}


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(words for bit, words in CLOCK_REASONS if bits & bit)


def _known(value: int) -> int | None:
    return None if value == NOT_AVAILABLE else int(value)


READINGS = (
    NvmlReading("utilisation", Tier.LOAD, (utilisation_percent,)),
    NvmlReading("memory", Tier.LOAD, (memory_used_bytes,)),
    NvmlReading("temperature", Tier.HEAT, (
        lambda handle: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        lambda handle: float(pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU)),
    )),
    NvmlReading("power", Tier.HEAT, (lambda handle: float(pynvml.nvmlDeviceGetPowerUsage(handle)) / 1000,)),  # mW
    NvmlReading("clock", Tier.HEAT, (
        lambda handle: float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
    )),
    NvmlReading("clock_reasons", Tier.HEAT, (
        lambda handle: _reasons(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)),
        lambda handle: _reasons(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
    )),
    # Versions by name: the unversioned functions turn "function not found" into another error.
    NvmlReading("compute", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
    )),
    NvmlReading("graphics", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
    )),
    NvmlReading("mps", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2,
    )),
    NvmlReading("shares", Tier.PROCESSES, (_shares,)),
    NvmlReading("health", Tier.HEALTH, ()),  # `card` asks: it has a table of its own
    NvmlReading("power_limit", Tier.LIMITS, (_power_limit_watts,)),
)

MIG_READINGS = frozenset({"memory", "compute", "graphics", "mps"})
"""The readings of a MIG device. MIG mode has no utilisation; temperature, power and clock are the whole GPU's."""


# -- what a device is ------------------------------------------------------------------------------


def describe(index: int, handle: Handle, report_alive: Callable[[], None]) -> Device:
    """Return the GPU of an index; `report_alive` is called after each question. Raises `pynvml.NVMLError`."""
    answers = _ask(GPU_QUESTIONS, handle, report_alive)
    memory = answers["memory"]
    integrated = memory in {NO_MEMORY, 0} or any(word in answers["name"] for word in INTEGRATED)
    return Device(
        id=answers["uuid"], kind="nvidia", label=f"GPU {index}", name=answers["name"], minor=answers["minor"],
        memory_total_bytes=None if integrated else memory, pci_bus_id=answers["pci"],
        # The memory of a GPU that is a NUMA node is allocated by the system, and not released at the end of a process
        # (NVML's known issues).
        shared_memory=integrated or answers["numa node"] is not None,
        compute_capability=answers["capability"] and tuple(answers["capability"]),
    )


def in_mig_mode(handle: Handle) -> bool:
    """Return whether a GPU is in MIG mode. Raises `pynvml.NVMLError`."""
    mode = _or_none(pynvml.nvmlDeviceGetMigMode, handle)
    return mode is not None and mode[0] == MIG_MODE_ON


def with_mig_mode(gpu: Device, index: int, on: bool) -> Device:
    """Return the GPU, blocked if its MIG mode is on."""
    sentence = tr(
        "{label} is in MIG mode and cannot be used as a whole: tick a MIG device of it. "
        "Where none is listed, make one (nvidia-smi mig -i {index} -cgi ... -C), "
        "or switch the mode off (nvidia-smi -i {index} -mig 0).",
        label=gpu.label,
        index=index,
    )
    return replace(gpu, blocked=sentence if on else None)


def mig_devices(gpu: Device, handle: Handle, report_alive: Callable[[], None]) -> Iterator[tuple[Device, Handle]]:
    """Yield the MIG devices of a GPU with their handles. Raises `pynvml.NVMLError` if the GPU does not answer."""
    count = pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    report_alive()
    for number in range(count):
        try:
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            report_alive()
            answers = _ask(MIG_QUESTIONS, mig, report_alive)
        except pynvml.NVMLError as error:
            if error.value in NO_SUCH:
                continue
            raise
        device = Device(
            id=answers["uuid"], kind="nvidia", label=f"{gpu.label} MIG {number}", name=answers["name"],
            memory_total_bytes=answers["memory"] if isinstance(answers["memory"], int) else None,
            pci_bus_id=gpu.pci_bus_id, shared_memory=gpu.shared_memory,  # no minor: /dev/nvidiaN is of the whole GPU
            compute_capability=gpu.compute_capability,
        )
        yield device, mig


def _ask(
    questions: tuple[tuple[str, Callable[[Handle], Any]], ...], handle: Handle, report_alive: Callable[[], None]
) -> dict[str, Any]:
    answers = {}
    for name, question in questions:
        answers[name] = question(handle)
        report_alive()
    return answers


def _memory(handle: Handle) -> int | str | None:
    """Return the memory in bytes, `NO_MEMORY`, or None if this driver cannot tell."""
    try:
        return memory_total_bytes(handle)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
            return NO_MEMORY  # the answer of GB10 and Jetson
        if error.value in NEVER:
            return None
        raise


def _pci_bus_id(handle: Handle) -> str:
    """Return the address as the kernel writes it, `0000:01:00.0`; NVML's own text has a longer domain."""
    pci = pynvml.nvmlDeviceGetPciInfo_v3(handle)
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _or_none(ask: Callable[[Handle], Any], handle: Handle, never: frozenset[int] = NEVER) -> Any:  # noqa: ANN401 (the type of the answer)
    """Return an answer, or None for the errors with which a device or a driver never has one. Raises other errors."""
    try:
        return ask(handle)
    except pynvml.NVMLError as error:
        if error.value in never:
            return None
        raise


MIG_QUESTIONS: tuple[tuple[str, Callable[[Handle], Any]], ...] = (
    ("uuid", pynvml.nvmlDeviceGetUUID),
    ("name", pynvml.nvmlDeviceGetName),
    ("memory", _memory),
)
GPU_QUESTIONS: tuple[tuple[str, Callable[[Handle], Any]], ...] = (
    *MIG_QUESTIONS,
    ("pci", lambda handle: _or_none(_pci_bus_id, handle)),
    ("minor", lambda handle: _or_none(pynvml.nvmlDeviceGetMinorNumber, handle)),
    ("numa node", lambda handle: _or_none(pynvml.nvmlDeviceGetNumaNodeId, handle, NEVER | NO_SUCH)),
    ("capability", lambda handle: _or_none(pynvml.nvmlDeviceGetCudaComputeCapability, handle)),
)


# -- errors ----------------------------------------------------------------------------------------


def words(error: pynvml.NVMLError) -> str:
    """Return NVML's own words for an error, which users can search for."""
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return str(error)  # without the library there are no words of its own
    return str(pynvml.nvmlErrorString(error.value))


def driver_error(error: pynvml.NVMLError) -> DriverError:
    """Return an error of the driver as a sentence, with its remedy."""
    remedy = tr(REMEDIES.get(error.value, KERNEL_LOG))
    return DriverError(tr("The NVIDIA driver cannot be asked: “{words}”. {remedy}", words=words(error), remedy=remedy))
