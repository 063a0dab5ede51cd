"""Read the NVIDIA devices through NVML, the driver's own library.

Runs in the helper process only: the library can hang, and can crash its caller.

An inherited CUDA_VISIBLE_DEVICES hides devices. Slurm, containers and shells set it to share a machine; hidden devices
are listed and cannot be ticked. The rules are those of NVIDIA's CUDA programming guide, completed by the driver's
behaviour that PyTorch found (pull request 92315, driver 525): the first entry decides between UUIDs and numbers, a
number may be followed by letters, and a device that is named twice hides all devices.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.device import Device, Sample
from core.devices.nvidia import nvml, preflight
from core.devices.nvidia.card import Card, PciPaths, PowerState, addresses, sleepers, unwoken
from core.devices.nvidia.nvml import Handle, words
from core.devices.nvidia.preflight import BY_BUS, ORDER, VISIBLE
from core.devices.reader import KERNEL_LOG, DriverError, NoDevices, Options, Tier
from core.errors import RunError
from core.language import join_sentences, tr, tr_noop

TRACES = (Path("/dev/nvidia0"), Path("/proc/driver/nvidia"))
"""Files that exist while the driver is loaded."""
WHOLE = -1
"""The number of a whole GPU in its `DeviceAddress`."""

DeviceAddress = tuple[int, int]
"""The place of a device in the list: the index of its GPU, and its number as a MIG device."""


class NvidiaReader:
    """Reads all NVIDIA devices. Never uses a handle that failed, nor wakes a GPU up without need."""

    def __init__(
        self, options: Options, *, paths: PciPaths = PciPaths(),  # noqa: B008 (frozen)
        traces: Iterable[Path] = TRACES, environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Raises `NoDevices` without library and driver, `DriverError` if they do not work."""
        self._options, self._paths, self._traces = options, paths, tuple(traces)
        self._needed = options.wake | (options.only or frozenset())
        self._visibility = VisibleDevices(environment)
        self._problem: str | None = None
        self._opened = False
        self._cards: dict[str, Card] = {}
        self._order: dict[str, DeviceAddress] = {}
        self._unwoken: dict[str, tuple[Device, PowerState]] = {}
        self.devices: tuple[Device, ...] = ()
        """The GPUs by NVML's index, each followed by its MIG devices. A device that was listed once stays listed."""
        self._shown: list[Card] = []
        self._list_at = 0.0
        self._list()

    @property
    def banner(self) -> str | None:
        """Sentences about GPUs that cannot be listed, and an inherited CUDA_VISIBLE_DEVICES that is unclear."""
        return join_sentences([self._problem, self._visibility.banner]) or None

    def read(self, now: float, tiers: Collection[Tier]) -> list[Sample]:
        """Return one sample of each GPU at `now`, unix seconds; readings that are not due keep their last values."""
        if time.monotonic() >= self._list_at or any(not power.is_asleep() for _, power in self._unwoken.values()):
            try:
                self._list()
            except DriverError as error:
                self._problem = str(error)  # the listed GPUs are still read
                self._unwoken.clear()
                self._show(sure=False)
        readings = [reading for reading in nvml.READINGS if reading.tier in tiers]
        asleep = [device.id for device, _ in self._unwoken.values() if self._options.wants(device.id)]
        return [
            *(card.read(now, readings) for card in self._shown),
            *(Sample(device_id=each, time=now, asleep=True) for each in asleep),
        ]

    # -- the list --------------------------------------------------------------------------------

    def _list(self) -> None:
        """List the GPUs that are not listed yet: one may be lost at the start, or be plugged in later."""
        self._list_at = time.monotonic() + self._options.retry_s
        sleeping = sleepers(self._paths)
        if not self._opened and sleeping and sleeping == addresses(self._paths) and not self._needed:
            failures: list[str | None] = []  # all of them sleep, and even opening a session would wake them up
        else:
            self._open()
            failures = self._list_gpus(sleeping)
            if sleeping and self._needed - self._cards.keys():
                sleeping = []  # wake them all up, since one of them is needed
                failures = self._list_gpus(sleeping)
        self._problem = join_sentences(failures) or None
        self._list_sleepers(sleeping)
        self._show(sure=not self._problem and not self._unwoken)

    def _open(self) -> None:
        if self._opened:
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            absent = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
            if absent and not any(trace.exists() for trace in self._traces):
                raise NoDevices from error
            raise nvml.driver_error(error) from error
        self._opened = True
        self._options.report_alive()

    def _list_gpus(self, sleeping: Collection[str]) -> list[str | None]:
        failures = self._list_by_address(sleeping) if sleeping else self._list_by_index()
        self._list_mig_devices()
        return failures

    def _list_by_index(self) -> list[str | None]:
        try:
            count = int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            raise nvml.driver_error(error) from error
        self._options.report_alive()
        listed = {index for index, number in self._order.values() if number == WHOLE}
        return [self._list_one(index) for index in range(count) if index not in listed]

    def _list_one(self, index: int) -> str | None:
        """Add the GPU of an index. Return a sentence if that fails: without its UUID it has no row."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            self._options.report_alive()
            self._add(nvml.describe(index, handle, self._options.report_alive), handle, (index, WHOLE))
        except pynvml.NVMLError as error:
            return tr(
                "GPU {index} cannot be listed: the driver says “{words}”. {remedy}",
                index=index, words=words(error), remedy=tr(KERNEL_LOG),
            )
        return None

    def _list_by_address(self, sleeping: Collection[str]) -> list[str | None]:
        """Add the GPUs that are awake. Listing by index could wake a sleeping one up."""
        known = {card.device.pci_bus_id for card in self._cards.values()}
        awake = [address for address in addresses(self._paths) if address not in sleeping and address not in known]
        return [self._list_awake(address) for address in awake]

    def _list_awake(self, address: str) -> str | None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(address)
            self._options.report_alive()
            index = int(pynvml.nvmlDeviceGetIndex(handle))
            self._options.report_alive()
            self._add(nvml.describe(index, handle, self._options.report_alive), handle, (index, WHOLE))
        except pynvml.NVMLError as error:
            if error.value in nvml.NO_SUCH:
                return None  # a container shows more GPUs on the bus than it may use
            return tr(
                "GPU at {address} cannot be listed: the driver says “{words}”. {remedy}",
                address=address, words=words(error), remedy=tr(KERNEL_LOG),
            )
        return None

    def _list_mig_devices(self) -> None:
        """List the MIG mode and the MIG devices of all GPUs again: both may change at any time."""
        for card in list(self._cards.values()):
            index, number = self._order[card.device.id]
            if number != WHOLE or card.handle is None or card.power.is_asleep():
                continue
            try:
                on = nvml.in_mig_mode(card.handle)
                self._options.report_alive()
                card.device = nvml.with_mig_mode(card.device, index, on)
                self._compare_mig_devices(
                    index, dict(nvml.mig_devices(card.device, card.handle, self._options.report_alive)) if on else {}
                )
            except pynvml.NVMLError as error:
                card.lose(error)

    def _compare_mig_devices(self, index: int, found: Mapping[Device, Handle]) -> None:
        ids = {device.id for device in found}
        for device_id, (gpu, number) in self._order.items():
            if gpu == index and number != WHOLE and device_id not in ids:
                # Its handle could come to mean another MIG device.
                self._cards[device_id].lose(pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND))
        for number, (device, handle) in enumerate(found.items()):
            self._add(device, handle, (index, number))

    def _add(self, device: Device, handle: Handle, address: DeviceAddress) -> None:
        if device.id in self._cards:
            return
        power = PowerState(self._paths.sysfs, device.pci_bus_id)
        self._cards[device.id] = Card(device, handle, self._options, power)
        self._order[device.id] = address

    def _list_sleepers(self, sleeping: Iterable[str]) -> None:
        known = {card.device.pci_bus_id for card in self._cards.values()}
        self._unwoken = {
            address: self._unwoken.get(address)
            or (unwoken(address, self._paths), PowerState(self._paths.sysfs, address))
            for address in sleeping
            if address not in known
        }

    def _show(self, *, sure: bool) -> None:
        """Set the devices that others see: the wanted ones, blocked where CUDA_VISIBLE_DEVICES hides them."""
        ids = sorted(self._cards, key=lambda device_id: self._order[device_id])
        self._shown = [self._cards[device_id] for device_id in ids if self._options.wants(device_id)]
        devices = [self._cards[device_id].device for device_id in ids]
        hidden = self._visibility.blocked(devices, sure=sure, asleep=bool(self._unwoken))
        listed = [replace(device, blocked=device.blocked or hidden.get(device.id)) for device in devices]
        listed += [device for device, _ in self._unwoken.values()]
        self.devices = tuple(device for device in listed if self._options.wants(device.id))


open_reader = NvidiaReader


ASK_TIMEOUT_S = 10.0
"""Seconds to wait for the CUDA driver's answer."""
RETRY_S = 60.0
"""Seconds after which a driver that failed is asked again: it may be slow only after the machine's start."""
UUID_PREFIXES = ("GPU-", "MIG-")


class UnclearEntry(Exception):  # noqa: N818 (no error: the driver is asked instead)
    """The meaning of an entry cannot be derived from the list of devices."""


class VisibleDevices:
    """The devices that the variable hides. Asks the CUDA driver only if needed, once for each list of devices."""

    def __init__(
        self,
        environment: Mapping[str, str],
        ask: Callable[[Mapping[str, str]], list[str]] | None = None,
    ) -> None:
        """`ask` returns the UUIDs that are visible in an environment, or raises `RunError`."""
        self._environment = environment
        self._value = environment.get(VISIBLE)
        self._ask = ask or _ask
        self._known: tuple[tuple[str, ...], bool, bool] | None = None
        self._retry_at = float("inf")
        """Time of `time.monotonic()` at which a driver that failed is asked again."""
        self._blocked: dict[str, str] = {}
        self.banner: str | None = None
        """A sentence if the meaning of the variable could not be found out."""

    def blocked(self, devices: Sequence[Device], *, sure: bool, asleep: bool = False) -> dict[str, str]:
        """Return, by device id, a sentence for each hidden device.

        `devices`: GPUs and MIG devices. `sure`: whether they are complete; otherwise numbers and unknown UUIDs are
        unclear. `asleep`: whether a GPU sleeps, which asking the driver would wake up, so that it is not asked.
        """
        if self._value is None or not devices:
            return {}
        ids = tuple(device.id for device in devices)
        if self._known != (ids, sure, asleep) or time.monotonic() >= self._retry_at:
            self._known = (ids, sure, asleep)
            self._retry_at = float("inf")
            self.banner = None
            self._blocked = self._hidden(self._value, devices, sure, asleep)
        return self._blocked

    def _hidden(self, value: str, devices: Sequence[Device], sure: bool, asleep: bool) -> dict[str, str]:
        try:
            visible, bad_entry = self._read(value, devices, sure)
        except UnclearEntry:
            try:
                answer = self._shown(asleep)
            except RunError as error:
                self._retry_at = time.monotonic() + RETRY_S
                self.banner = tr(
                    "{variable}={value} is set, and its GPUs could not be determined: {error} "
                    "All are offered; set {order}={by_bus}, or name the GPUs in it by UUID.",
                    variable=VISIBLE, value=value, error=error, order=ORDER, by_bus=BY_BUS,
                )
                return {}
            shown = {preflight.plain(uuid) for uuid in answer}
            visible, bad_entry = {device.id for device in devices if preflight.plain(device.id) in shown}, None
        return {device.id: _sentence(device, value, bad_entry) for device in devices if device.id not in visible}

    def _shown(self, asleep: bool) -> list[str]:
        if asleep:
            raise RunError(tr("A GPU is asleep, and the CUDA driver would wake it up to answer."))
        return self._ask(self._environment)

    def _read(self, value: str, devices: Sequence[Device], sure: bool) -> tuple[set[str], str | None]:
        """Return the visible ids, and the bad entry that ends the list, if any. Raises `UnclearEntry`."""
        entries = [entry.strip() for entry in value.split(",")]
        if entries[0].startswith(UUID_PREFIXES):
            return _collect(entries, lambda entry: _by_uuid(entry, entries[0][:4], devices, sure))
        if _number(entries[0]) is None:
            return set(), entries[0] or None
        gpus = [device for device in devices if not device.is_mig]
        by_bus = self._environment.get(ORDER) == BY_BUS and all(gpu.pci_bus_id for gpu in gpus)
        if not sure or len(gpus) < len(devices) or any(gpu.blocked for gpu in gpus) or not (by_bus or len(gpus) == 1):
            raise UnclearEntry
        gpus.sort(key=lambda gpu: gpu.pci_bus_id or "")
        numbered: dict[int | None, str] = {number: gpu.id for number, gpu in enumerate(gpus)}
        return _collect(entries, lambda entry: numbered.get(_number(entry)))


def _collect(entries: Sequence[str], find: Callable[[str], str | None]) -> tuple[set[str], str | None]:
    visible: set[str] = set()
    for entry in entries:
        found = find(entry)
        if found is None:
            return visible, entry
        if found in visible:
            return set(), entry
        visible.add(found)
    return visible, None


def _by_uuid(entry: str, kind: str, devices: Sequence[Device], sure: bool) -> str | None:
    if "/" in entry:
        raise UnclearEntry  # the format of drivers before 470: a MIG device by its GPU and two numbers
    matches = [device for device in devices if device.id.lower().startswith(entry.lower())]
    if not entry.startswith(kind) or len(matches) > 1:  # the start of several UUIDs
        return None
    if not matches:
        if sure:
            return None
        raise UnclearEntry  # it may belong to a GPU that sleeps or cannot be listed
    if matches[0].blocked:
        raise UnclearEntry  # only the driver knows which MIG device of this GPU is used
    return matches[0].id


def _number(entry: str) -> int | None:
    """Return the number as C's strtol reads it: `1gpu` is 1."""
    found = re.match(r"[+-]?\d+", entry)
    return None if found is None else int(found[0])


def _sentence(device: Device, value: str, bad_entry: str | None) -> str:
    sentence = tr_noop("{label} is hidden by {variable}={value} in the environment that Trainyard was started in.")
    if not value:
        sentence = tr_noop(
            "{label} is hidden by {variable}, which is set and empty, in the environment that Trainyard was started in."
        )
    parts = [tr(sentence, label=device.label, variable=VISIBLE, value=value)]
    if bad_entry and bad_entry != "-1":
        parts.append(
            tr("(Its entry “{entry}” is not a GPU here, or is repeated, and CUDA ignores the rest.)", entry=bad_entry)
        )
    return join_sentences(
        [*parts, tr("Start Trainyard with another value, or without the variable, to use this device.")]
    )


def _ask(environment: Mapping[str, str]) -> list[str]:
    return preflight.visible(environment, timeout_s=ASK_TIMEOUT_S)
