"""Questions to NVML, the NVIDIA driver's own library, about one device, and its errors in words.

Everything here is from NVIDIA's documentation of NVML and from other people's reports. The tests run it against a
stand-in for the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.reader import KERNEL_LOG, DriverError, Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Handle = Any  # NVML's, opaque

NOT_AVAILABLE = 2**64 - 1  # NVML's word for "this number is not known" in 64 bits

# The reading does not exist on this device or with this driver, and never will while it runs.
NEVER = frozenset({
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
})  # fmt: skip
# There is no reading this time; the device is well.
NOT_NOW = frozenset({
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_NOT_READY,
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE,  # processes were started between asking how many and which
})  # fmt: skip

CURES = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "Load the driver (modprobe nvidia), or reboot.",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "It was updated while in use: reboot, or reload the driver.",
    pynvml.NVML_ERROR_NO_PERMISSION: "Ask for the right to open /dev/nvidia* (often the group video).",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "Install libnvidia-ml.so.1, which comes with the driver.",
}
OTHER_CURE = KERNEL_LOG

CLOCK_REASONS = (
    (pynvml.nvmlClocksThrottleReasonSwPowerCap, "power limit"),
    (pynvml.nvmlClocksThrottleReasonHwSlowdown, "hardware slowdown"),
    (pynvml.nvmlClocksThrottleReasonSwThermalSlowdown, "too hot"),
    (pynvml.nvmlClocksThrottleReasonHwThermalSlowdown, "far too hot"),
    (pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "power supply"),
    (pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting, "clocks set by the user"),
    (pynvml.nvmlClocksThrottleReasonSyncBoost, "kept in step with other GPUs"),
    (pynvml.nvmlClocksThrottleReasonDisplayClockSetting, "display setting"),
)  # idle is left out: it is no hindrance


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """One thing to ask of a device, and the ways to ask: drivers of different ages know different ones."""

    name: str
    tier: Tier
    ways: tuple[Callable[[Handle], Any], ...]


def utilisation_percent(handle: Handle) -> float | None:
    """The share of the last moments in which any kernel ran."""
    percent = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    return float(percent) if percent <= 100 else None  # more is garbage, which drivers do return


def memory_used_bytes(handle: Handle) -> int | None:
    """Memory in use, without what the driver sets aside for itself."""
    # The older call counts the driver's reserve as used: up to a gigabyte on an idle card.
    return _known(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)


def memory_total_bytes(handle: Handle) -> int | None:
    """All memory of the device."""
    return _known(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).total)


def _temperature_celsius(handle: Handle) -> float | None:
    return float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))


def _new_temperature_celsius(handle: Handle) -> float | None:
    return float(pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU))


def _power_watts(handle: Handle) -> float | None:
    return float(pynvml.nvmlDeviceGetPowerUsage(handle)) / 1000  # milliwatts


def _clock_reasons(handle: Handle) -> tuple[str, ...]:
    return _reasons(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))


def _old_clock_reasons(handle: Handle) -> tuple[str, ...]:
    return _reasons(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(words for bit, words in CLOCK_REASONS if bits & bit)


def _known(value: int) -> int | None:
    return None if value == NOT_AVAILABLE else int(value)


READINGS = (
    NvmlReading("utilisation", Tier.LOAD, (utilisation_percent,)),
    NvmlReading("memory", Tier.LOAD, (memory_used_bytes,)),
    NvmlReading("temperature", Tier.HEAT, (_temperature_celsius, _new_temperature_celsius)),
    NvmlReading("power", Tier.HEAT, (_power_watts,)),
    NvmlReading("clock_reasons", Tier.HEAT, (_clock_reasons, _old_clock_reasons)),
    # Each version by its name: the unversioned functions turn "function not found" into another error.
    NvmlReading("compute", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
    )),
    NvmlReading("graphics", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
    )),
    NvmlReading("mps", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2,
    )),
)  # fmt: skip

MIG_READINGS = frozenset({"memory", "compute", "graphics", "mps"})
"""What a MIG device is asked. Utilisation is not told in MIG mode, and heat and power are those of the whole card."""


def due(tiers: Collection[Tier]) -> tuple[NvmlReading, ...]:
    """The readings of some tiers."""
    return tuple(reading for reading in READINGS if reading.tier in tiers)


def or_none(ask: Callable[[Handle], Any], handle: Handle) -> Any:  # noqa: ANN401 (as what is asked)
    """An answer, or None where the device or the driver has none and never will. Raises other errors."""
    try:
        return ask(handle)
    except pynvml.NVMLError as error:
        if error.value in NEVER:
            return None
        raise


def words(error: pynvml.NVMLError) -> str:
    """NVML's own words for an error: those that people know, and search for."""
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return str(error)  # there is no library to ask for its words
    return str(pynvml.nvmlErrorString(error.value))


def trouble(error: pynvml.NVMLError) -> DriverError:
    """The driver's trouble as a sentence, with its cure."""
    cure = CURES.get(error.value, OTHER_CURE)
    return DriverError(f"The NVIDIA driver cannot be asked: “{words(error)}”. {cure}")
