"""NVIDIA devices, read through the driver's own library, NVML.

Runs in the helper process only: the library can hang, and can crash whoever calls it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml  # noqa: TID251 (this is the one module that talks to the driver)

from .device import Device, Process, Sample
from .power import SYSFS, PowerState
from .reader import DriverError, NoDevices, Options, Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

Handle = Any  # NVML's, opaque

NOT_AVAILABLE = 2**64 - 1  # NVML's word for "this number is not known" in 64 bits
TRACES = (Path("/dev/nvidia0"), Path("/proc/driver/nvidia"))  # what a machine has whose driver is loaded

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
OTHER_CURE = "Look into the kernel's log (dmesg) for NVRM and Xid; a reboot often helps."

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


def _utilisation_percent(handle: Handle) -> float | None:
    percent = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    return float(percent) if percent <= 100 else None  # more is garbage, which drivers do return


def _memory_used_bytes(handle: Handle) -> int | None:
    # The older call counts the driver's reserve as used: up to a gigabyte on an idle card.
    return _known(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)


def _memory_total_bytes(handle: Handle) -> int | None:
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


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing to ask of a device, and the ways to ask: drivers of different ages know different ones."""

    name: str
    tier: Tier
    ways: tuple[Callable[[Handle], Any], ...]


READINGS = (
    Reading("utilisation", Tier.LOAD, (_utilisation_percent,)),
    Reading("memory", Tier.LOAD, (_memory_used_bytes,)),
    Reading("temperature", Tier.HEAT, (_temperature_celsius, _new_temperature_celsius)),
    Reading("power", Tier.HEAT, (_power_watts,)),
    Reading("clock_reasons", Tier.HEAT, (_clock_reasons, _old_clock_reasons)),
    # Each version by its name: the unversioned functions turn "function not found" into another error.
    Reading("compute", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
    )),
    Reading("graphics", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
    )),
    Reading("mps", Tier.PROCESSES, (
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2,
    )),
)  # fmt: skip


def _due(tiers: Collection[Tier]) -> tuple[Reading, ...]:
    return tuple(reading for reading in READINGS if reading.tier in tiers)


def _describe(index: int, handle: Handle) -> Device:
    return Device(
        id=pynvml.nvmlDeviceGetUUID(handle),
        kind="nvidia",
        label=f"GPU {index}",
        name=pynvml.nvmlDeviceGetName(handle),
        memory_total_bytes=_or_none(_memory_total_bytes, handle),
        pci_bus_id=_or_none(_pci_bus_id, handle),
    )


def _or_none(ask: Callable[[Handle], Any], handle: Handle) -> Any:  # noqa: ANN401 (as what is asked)
    try:
        return ask(handle)
    except pynvml.NVMLError as error:
        if error.value in NEVER:  # memory of its own, for one, is not what every GPU has
            return None
        raise


def _pci_bus_id(handle: Handle) -> str:
    """As the kernel writes it, `0000:01:00.0`: NVML's own has a longer domain."""
    pci = pynvml.nvmlDeviceGetPciInfo_v3(handle)
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _count() -> int:
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        raise _trouble(error) from error


def _words(error: pynvml.NVMLError) -> str:
    """NVML's own words for an error: those that people know, and search for."""
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return str(error)  # there is no library to ask for its words
    return str(pynvml.nvmlErrorString(error.value))


def _trouble(error: pynvml.NVMLError) -> DriverError:
    cure = CURES.get(error.value, OTHER_CURE)
    return DriverError(f"The NVIDIA driver cannot be asked: “{_words(error)}”. {cure}")


def open_reader(options: Options, traces: Iterable[Path] = TRACES) -> NvidiaReader:
    """A reader of the NVIDIA devices.

    Raises `NoDevices` where there is neither library nor driver, `DriverError` where they do not work.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        absent = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        if absent and not any(trace.exists() for trace in traces):
            raise NoDevices from error
        raise _trouble(error) from error
    return NvidiaReader(options)


def _merge(*lists: Sequence[Any] | None) -> tuple[Process, ...] | None:
    """One entry per process, though one that computes and draws is in two lists; None without any list."""
    used: dict[int, int | None] = {}
    for entry in (entry for entries in lists if entries for entry in entries):
        if used.get(entry.pid) is None:
            used[entry.pid] = entry.usedGpuMemory  # pynvml has made None of "not available"
    if not used and lists == (None,) * len(lists):
        return None
    return tuple(Process(pid=pid, memory_used_bytes=memory) for pid, memory in sorted(used.items()))


class _Card:
    """One GPU: its handle, what it cannot tell, and what it told last."""

    def __init__(self, device: Device, handle: Handle, options: Options, power: PowerState) -> None:
        self.device = device
        self._handle: Handle | None = handle
        self._options = options
        self._power = power
        self._ways = {reading.name: reading.ways for reading in READINGS}  # those that may still work
        self._values: dict[str, Any] = {}
        self._lost: str | None = None
        self._retry_at = 0.0

    def read(self, now: float, due: Sequence[Reading]) -> Sample:
        """A sample at `now`, unix seconds. An error of the device is in the sample, never raised."""
        if self._power.is_asleep():
            self._values.clear()
            return Sample(device_id=self.device.id, time=now)  # asking would wake it up
        try:
            self._refresh(due if self._handle is not None else self._regain())
        except pynvml.NVMLError as error:
            self._lose(error)
        return self._sample(now)

    def _refresh(self, due: Sequence[Reading]) -> None:
        values = self._values
        for reading in due:
            values[reading.name] = self._ask(reading)

    def _ask(self, reading: Reading) -> Any:  # noqa: ANN401 (each reading has a type of its own)
        ways = self._ways[reading.name]
        if not ways:
            return None
        try:
            return ways[0](self._handle)
        except pynvml.NVMLError as error:
            if error.value in NEVER:
                self._ways[reading.name] = ways[1:]
                return self._ask(reading)
            if error.value in NOT_NOW:
                return None
            raise

    def _sample(self, now: float) -> Sample:
        value = self._values.get
        return Sample(
            device_id=self.device.id,
            time=now,
            utilisation_percent=value("utilisation"),
            memory_used_bytes=value("memory"),
            temperature_celsius=value("temperature"),
            power_watts=value("power"),
            clock_reasons=value("clock_reasons") or (),
            processes=_merge(value("compute"), value("graphics"), value("mps")),
            lost=self._lost,
        )

    def _lose(self, error: pynvml.NVMLError) -> None:
        # A handle may be stale after any error, and a stale one crashes the process: never use it again.
        self._handle = None
        self._values.clear()
        self._retry_at = time.monotonic() + self._options.retry_s
        self._lost = (
            f"{self.device.label} does not answer: the driver says “{_words(error)}”. "
            f"It is asked again every {self._options.retry_s:g} s."
        )

    def _regain(self) -> Sequence[Reading]:
        """What to read of a lost device: everything once it is found again, nothing before."""
        if time.monotonic() < self._retry_at:
            return ()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(self.device.id)
        self._lost = None
        return READINGS


class NvidiaReader:
    """Reads all NVIDIA devices. Never touches a device that sleeps, or a handle that failed."""

    def __init__(self, options: Options, sysfs: Path = SYSFS) -> None:
        self.banner: str | None = None
        self._options = options
        self._sysfs = sysfs
        self._cards: dict[str, _Card] = {}
        self._listed: set[int] = set()
        self._list_at = 0.0
        self._list()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs in the order of NVML's indexes; one that was listed stays listed."""
        return tuple(card.device for card in self._cards.values())

    def read(self, now: float, tiers: Collection[Tier]) -> list[Sample]:
        """One sample of each GPU at `now`, unix seconds; readings that are not due are the last ones."""
        if time.monotonic() >= self._list_at:
            self._list_again()
        due = _due(tiers)
        return [card.read(now, due) for card in self._cards.values()]

    def _list(self) -> None:
        """List the GPUs that are not listed yet: one may be lost at the start, or be plugged in later."""
        self._list_at = time.monotonic() + self._options.retry_s
        failures = [self._list_one(index) for index in range(_count()) if index not in self._listed]
        self.banner = " ".join(failure for failure in failures if failure) or None

    def _list_again(self) -> None:
        try:
            self._list()
        except DriverError as trouble:
            self.banner = str(trouble)  # the GPUs that are listed go on

    def _list_one(self, index: int) -> str | None:
        """Add the GPU of an index. Returns a sentence when that fails: without its UUID it has no row."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            device = _describe(index, handle)
        except pynvml.NVMLError as error:
            return f"GPU {index} cannot be listed: the driver says “{_words(error)}”. {OTHER_CURE}"
        self._listed.add(index)
        if self._options.wants(device.id) and device.id not in self._cards:
            power = PowerState(self._sysfs, device.pci_bus_id)
            self._cards[device.id] = _Card(device, handle, self._options, power)
        return None
