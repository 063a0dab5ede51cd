"""Read the NVIDIA devices through NVML, the driver's own library.

Runs in the helper process only: the library can hang, and can crash its caller.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.device import Sample
from core.devices.nvidia.card import Card, PciPaths, PowerState, addresses, sleepers, unwoken
from core.devices.nvidia.nvml import (
    NO_SUCH,
    describe,
    driver_error,
    due,
    in_mig_mode,
    mig_devices,
    with_mig_mode,
    words,
)  # fmt: skip
from core.devices.nvidia.visibility import VisibleDevices
from core.devices.reader import KERNEL_LOG, DriverError, NoDevices, Options
from core.language import tr

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from core.devices.device import Device
    from core.devices.nvidia.nvml import Handle
    from core.devices.reader import Tier

TRACES = (Path("/dev/nvidia0"), Path("/proc/driver/nvidia"))
"""Files that exist while the driver is loaded."""
WHOLE = -1
"""The number of a whole GPU in its `DeviceAddress`."""

DeviceAddress = tuple[int, int]
"""The place of a device in the list: the index of its GPU, and its number as a MIG device."""


def open_reader(
    options: Options, traces: Iterable[Path] = TRACES, environment: Mapping[str, str] = os.environ
) -> NvidiaReader:
    """Return a reader of the NVIDIA devices.

    Raises `NoDevices` without library and driver, `DriverError` if they do not work.
    """
    return NvidiaReader(options, traces=traces, environment=environment)


class NvidiaReader:
    """Reads all NVIDIA devices. Never uses a handle that failed, nor wakes a GPU up without need."""

    def __init__(
        self,
        options: Options,
        *,
        paths: PciPaths = PciPaths(),  # noqa: B008 (frozen)
        traces: Iterable[Path] = TRACES,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._options, self._paths, self._traces = options, paths, tuple(traces)
        self._needed = options.wake | (options.only or frozenset())
        self._visibility = VisibleDevices(environment)
        self._problem: str | None = None
        self._opened = False
        self._cards: dict[str, Card] = {}
        self._order: dict[str, DeviceAddress] = {}
        self._unwoken: dict[str, tuple[Device, PowerState]] = {}
        self._devices: tuple[Device, ...] = ()
        self._shown: list[Card] = []
        self._list_at = 0.0
        self._list()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs by NVML's index, each followed by its MIG devices. A device that was listed once stays listed."""
        return self._devices

    @property
    def banner(self) -> str | None:
        """Sentences about GPUs that cannot be listed, and an inherited CUDA_VISIBLE_DEVICES that is unclear."""
        return " ".join(sentence for sentence in (self._problem, self._visibility.banner) if sentence) or None

    def read(self, now: float, tiers: Collection[Tier]) -> list[Sample]:
        """Return one sample of each GPU at `now`, unix seconds; readings that are not due keep their last values."""
        if time.monotonic() >= self._list_at or any(not power.is_asleep() for _, power in self._unwoken.values()):
            self._list_again()
        readings = due(tiers)
        samples = [card.read(now, readings) for card in self._shown]
        return [*samples, *self._asleep(now)] if self._unwoken else samples

    def _asleep(self, now: float) -> list[Sample]:
        wanted = (device for device, _ in self._unwoken.values() if self._options.wants(device.id))
        return [Sample(device_id=device.id, time=now, asleep=True) for device in wanted]

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
        self._problem = " ".join(failure for failure in failures if failure) or None
        self._list_sleepers(sleeping)
        self._show(sure=not self._problem and not self._unwoken)

    def _list_again(self) -> None:
        try:
            self._list()
        except DriverError as error:
            self._problem = str(error)  # the listed GPUs are still read
            self._unwoken.clear()
            self._show(sure=False)

    def _open(self) -> None:
        if self._opened:
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            absent = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
            if absent and not any(trace.exists() for trace in self._traces):
                raise NoDevices from error
            raise driver_error(error) from error
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
            raise driver_error(error) from error
        self._options.report_alive()
        listed = {index for index, number in self._order.values() if number == WHOLE}
        return [self._list_one(index) for index in range(count) if index not in listed]

    def _list_one(self, index: int) -> str | None:
        """Add the GPU of an index. Return a sentence if that fails: without its UUID it has no row."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            self._options.report_alive()
            self._add(describe(index, handle, self._options.report_alive), handle, (index, WHOLE))
        except pynvml.NVMLError as error:
            return tr(
                "GPU {index} cannot be listed: the driver says “{words}”. {remedy}",
                index=index,
                words=words(error),
                remedy=tr(KERNEL_LOG),
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
            self._add(describe(index, handle, self._options.report_alive), handle, (index, WHOLE))
        except pynvml.NVMLError as error:
            if error.value in NO_SUCH:
                return None  # a container shows more GPUs on the bus than it may use
            return tr(
                "GPU at {address} cannot be listed: the driver says “{words}”. {remedy}",
                address=address,
                words=words(error),
                remedy=tr(KERNEL_LOG),
            )
        return None

    def _list_mig_devices(self) -> None:
        """List the MIG mode and the MIG devices of all GPUs again: both may change at any time."""
        for card in list(self._cards.values()):
            index, number = self._order[card.device.id]
            if number != WHOLE or card.handle is None or card.is_asleep():
                continue
            try:
                on = in_mig_mode(card.handle)
                self._options.report_alive()
                card.device = with_mig_mode(card.device, index, on)
                self._compare_mig_devices(
                    index, dict(mig_devices(card.device, card.handle, self._options.report_alive)) if on else {}
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
        self._devices = tuple(device for device in listed if self._options.wants(device.id))
