"""One NVIDIA device: its handle, its readings and their last values. Of a sleeping device, what was known before.

A sleeping GPU is woken up by any question to NVML, by opening a session (btop issue 1831), and even by reading
`/proc/driver/nvidia/gpus/*/information`: the driver powers the GPU up to fill it in (`nv_procfs_read_gpu_info` in
NVIDIA's published kernel module). So its UUID cannot be read. The names of those folders and the PCI bus's files in
sysfs cost nothing. This was not tried on a real laptop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.device import ASLEEP_PREFIX, Device, Process, Sample
from core.devices.nvidia.health import Problem, XidEvents, health, problems, xid_problem
from core.devices.nvidia.nvml import MIG_READINGS, NEVER, NOT_NOW, READINGS, Handle, NvmlReading, words
from core.devices.reader import Options, Tier
from core.language import join_sentences, tr

SYSFS = Path("/sys/bus/pci/devices")
GPUS = Path("/proc/driver/nvidia/gpus")
PCI_IDS = (Path("/usr/share/hwdata/pci.ids"), Path("/usr/share/misc/pci.ids"))
VENDOR = "10de"
SLEEPS = frozenset({b"suspended", b"suspending"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PciPaths:
    """The files and folders from which GPUs on the PCI bus are read."""

    sysfs: Path = SYSFS
    gpus: Path = GPUS
    pci_ids: tuple[Path, ...] = PCI_IDS


class PowerState:
    """The runtime power state of one device."""

    def __init__(self, sysfs: Path, pci_bus_id: str | None) -> None:
        self._path = sysfs / str(pci_bus_id) / "power" / "runtime_status"
        self._known = self._path.exists()  # missing in many virtual machines

    def is_asleep(self) -> bool:
        """Return True only if the kernel reports that it sleeps."""
        if not self._known:
            return False
        try:
            return self._path.read_bytes().strip() in SLEEPS
        except OSError:
            return False  # removed from the bus, which the driver reports


def addresses(paths: PciPaths) -> list[str]:
    """Return the PCI addresses of the driver's GPUs, in the order of the bus; none if they cannot be read."""
    try:
        return sorted(entry.name.lower() for entry in paths.gpus.iterdir())
    except OSError:
        return []


def sleepers(paths: PciPaths) -> list[str]:
    """Return the PCI addresses of the sleeping GPUs."""
    return [address for address in addresses(paths) if PowerState(paths.sysfs, address).is_asleep()]


def unwoken(address: str, paths: PciPaths) -> Device:
    """Return a row for a sleeping GPU: its address, and its model if the system has the list of PCI ids."""
    label = f"GPU at {address}"
    blocked = tr(
        "{label} is asleep and was not woken up to be listed. "
        "To use it, wake it up: start a program that uses it, such as nvidia-smi.",
        label=label,
    )
    name = _model(address, paths) or "NVIDIA GPU"
    return Device(
        id=f"{ASLEEP_PREFIX}{address}", kind="nvidia", label=label, name=name, pci_bus_id=address, blocked=blocked
    )


def _model(address: str, paths: PciPaths) -> str | None:
    """Look up the name. In the list of PCI ids, vendors start a line, their devices follow a tab, subsystems two."""
    wanted = f"\t{_read(paths.sysfs / address / 'device').removeprefix('0x')}  "
    ours = False
    for line in next((text for path in paths.pci_ids if (text := _read(path))), "").splitlines():
        if ours and line.startswith(wanted):
            return f"NVIDIA {line.removeprefix(wanted).strip()}"
        if line[:1].strip() and not line.startswith("#"):
            ours = line.startswith(VENDOR)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return ""


NEVER_OF_MIG = NEVER | {pynvml.NVML_ERROR_INVALID_ARGUMENT}
"""NVML's errors for readings of a MIG device that only a whole GPU has."""

LISTS = ("compute", "graphics", "mps")
"""The readings that list processes."""


class Card:
    """A GPU or a MIG device."""

    def __init__(self, device: Device, handle: Handle, options: Options, power: PowerState) -> None:
        self.device = device
        self.handle: Handle | None = handle
        """NVML's handle, or None while the device is lost."""
        self._options = options
        self.power = power
        self._never = NEVER_OF_MIG if device.is_mig else NEVER
        self._functions = {reading.name: _functions(reading, device) for reading in READINGS}
        """By reading, the functions that may still work."""
        self._values: dict[str, Any] = {}
        self._lost: str | None = None
        self._retry_at = 0.0
        self._events: XidEvents | None = None
        self._xids: dict[int, None] = {}
        """The errors so far, in order: those since a run was started on the device."""

    def read(self, now: float, due: Sequence[NvmlReading]) -> Sample:
        """Return a sample at `now`, unix seconds. An error of the device is in the sample, never raised."""
        if self.power.is_asleep():
            self._values.clear()
            return Sample(device_id=self.device.id, time=now, asleep=True)
        try:
            self._refresh(due if self.handle is not None else self._regain())
        except pynvml.NVMLError as error:
            self.lose(error)
        return self._sample(now)

    def lose(self, error: pynvml.NVMLError) -> None:
        """Report the device as lost from now on, and try again later."""
        # After any error the handle may be stale, and using a stale handle crashes the process.
        self.handle = None
        self._values.clear()
        self._values["health"] = self._fault([])
        self._retry_at = time.monotonic() + self._options.retry_s
        self._lost = tr(
            "{label} does not answer: the driver says “{words}”. It is asked again every {seconds:g} s.",
            label=self.device.label, words=words(error), seconds=self._options.retry_s,
        )

    def _refresh(self, due: Sequence[NvmlReading]) -> None:
        values, listed = self._values, False
        for reading in due:
            values[reading.name] = self._health() if reading.tier is Tier.HEALTH else self._ask(reading)
            listed = listed or reading.tier is Tier.PROCESSES
            self._options.report_alive()
        if listed:
            values["processes"] = self._processes()

    def _ask(self, reading: NvmlReading) -> Any:  # noqa: ANN401 (each reading has a type of its own)
        functions = self._functions[reading.name]
        if not functions:
            return None
        try:
            return functions[0](self.handle)
        except pynvml.NVMLError as error:
            if error.value in self._never:
                self._functions[reading.name] = functions[1:]
                return self._ask(reading)
            if error.value in NOT_NOW or (reading.tier is Tier.LIMITS and error.value != pynvml.NVML_ERROR_GPU_IS_LOST):
                return None  # a limit is read after everything else, so the device itself has just answered
            raise

    def _health(self) -> str | None:
        """Return what is wrong with the GPU; None if nothing is known to be. A MIG device has no health of its own."""
        if self.device.is_mig:
            return None
        if self._events is None and self.device.id in self._options.wake:
            with suppress(pynvml.NVMLError):  # not every driver has them
                self._events = XidEvents(self.handle)
        answers = health(self.handle, self._options.report_alive)
        if any("could_not" in answer for answer in answers.values()):
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(self.device.id)  # the one before may be stale
        return self._fault(problems(answers, self.device))

    def _fault(self, found: Sequence[Problem]) -> str | None:
        """Word problems, and the errors that the driver has reported."""
        try:
            self._xids |= dict.fromkeys(self._events.take() if self._events else ())
        except pynvml.NVMLError:
            if self._events is not None:
                self._events.close()
            self._events = None  # the next handle gets new ones
        every = [*(xid_problem(number, self.device) for number in self._xids), *found]
        return join_sentences(part for each in every for part in (each.sentence, each.remedy)) or None

    def _sample(self, now: float) -> Sample:
        value = self._values.get
        return Sample(
            device_id=self.device.id, time=now, utilisation_percent=value("utilisation"),
            memory_used_bytes=value("memory"), temperature_celsius=value("temperature"), power_watts=value("power"),
            power_limit_watts=value("power_limit"), sm_clock_mhz=value("clock"),
            clock_reasons=value("clock_reasons") or (), processes=value("processes"), lost=self._lost,
            fault=value("health"),
        )

    def _processes(self) -> tuple[Process, ...] | None:
        """Return the processes on the device; None if a list that the driver supports is missing this time.

        The list of computing processes is indispensable; many drivers support none of the others.
        """
        lists = {name: self._values.get(name) for name in LISTS}
        missing = {name for name, entries in lists.items() if entries is None}
        if "compute" in missing or any(self._functions[name] for name in missing):
            return None
        used: dict[int, int | None] = {}  # one entry per process: one that computes and draws is in two lists
        for entry in (entry for entries in lists.values() if entries is not None for entry in entries):
            if used.get(entry.pid) is None:
                used[entry.pid] = entry.usedGpuMemory  # pynvml has made None of "not available"
        shares = self._values.get("shares")
        # Nothing was reported: that is no share of a GPU that is idle, and else not known.
        unreported = 0.0 if shares or (shares is not None and self._values.get("utilisation") == 0) else None
        shares = shares or {}
        return tuple(Process(pid, memory, shares.get(pid, unreported)) for pid, memory in sorted(used.items()))

    def _regain(self) -> Sequence[NvmlReading]:
        """Return the readings due for a lost device: all once it is found again, none before."""
        if time.monotonic() < self._retry_at:
            return ()
        self.handle = pynvml.nvmlDeviceGetHandleByUUID(self.device.id)
        self._options.report_alive()
        self._lost = None
        return READINGS


def _functions(reading: NvmlReading, device: Device) -> tuple[Callable[[Handle], Any], ...]:
    if device.is_mig and reading.name not in MIG_READINGS:
        return ()
    if device.shared_memory and device.memory_total_bytes is None and reading.name == "memory":
        return ()  # it has no memory of its own, but some drivers report a figure
    return reading.functions
