"""An inherited CUDA_VISIBLE_DEVICES: which devices it leaves to this program, as the CUDA driver would read it.

Slurm, containers and shells set it to share a machine out; what lies outside is listed, and cannot be ticked.
The rules are those of NVIDIA's CUDA programming guide, and where that is silent, what torch found the driver to do
(PyTorch pull request 92315, for driver 525): the first entry says whether UUIDs or numbers are meant, a number
may have letters behind it, and a device that is named twice leaves none at all.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NoReturn

from core.devices.nvidia import preflight
from core.devices.nvidia.preflight import BY_BUS, ORDER, VISIBLE
from core.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.devices.device import Device

ASK_TIMEOUT_S = 10.0
ASK_AGAIN_S = 60.0
"""So long after the driver was asked in vain: it may have been slow once, as after a start of the machine."""
UUID_PREFIXES = ("GPU-", "MIG-")


class NotReadable(Exception):  # noqa: N818 (no error: then the driver is asked)
    """What an entry means cannot be told from the list of devices alone."""


class VisibleDevices:
    """What the variable says of the devices; the CUDA driver is asked once for each list of them, if at all."""

    def __init__(
        self,
        environment: Mapping[str, str],
        ask: Callable[[Mapping[str, str]], list[str]] | None = None,
    ) -> None:
        """`ask` answers with the UUIDs that are visible in an environment, or raises `RunError`."""
        self._environment = environment
        self._value = environment.get(VISIBLE)
        self._ask = ask or _ask
        self._known: tuple[tuple[str, ...], bool, bool] | None = None
        self._ask_at = float("inf")
        """When what was asked in vain is asked again, by `time.monotonic()`."""
        self._blocked: dict[str, str] = {}
        self.banner: str | None = None
        """A sentence, when it could not be found out what the variable means."""

    def blocked(self, devices: Sequence[Device], *, sure: bool, asleep: bool = False) -> dict[str, str]:
        """By device id, a sentence for each device that is hidden.

        `devices`: all GPUs and MIG devices. `sure`: these are all there are; without that a number means nothing, and
        nor does a UUID that is not among them. `asleep`: whether a GPU sleeps that asking the driver would wake up;
        then it is not asked.
        """
        if self._value is None or not devices:
            return {}
        ids = tuple(device.id for device in devices)
        if self._known != (ids, sure, asleep) or time.monotonic() >= self._ask_at:
            self._known = (ids, sure, asleep)
            self._ask_at = float("inf")
            self.banner = None
            self._blocked = self._find_out(self._value, devices, sure, asleep)
        return self._blocked

    def _find_out(self, value: str, devices: Sequence[Device], sure: bool, asleep: bool) -> dict[str, str]:
        try:
            seen, culprit = self._read(value, devices, sure)
        except NotReadable:
            try:
                told = _let_sleep() if asleep else self._ask(self._environment)
            except RunError as error:
                self._ask_at = time.monotonic() + ASK_AGAIN_S
                self.banner = (
                    f"{VISIBLE}={value} is set, and which GPUs it means could not be found out: {error} "
                    f"All are offered; set {ORDER}={BY_BUS}, or name the GPUs in it by UUID."
                )
                return {}
            shown = {preflight.plain(uuid) for uuid in told}
            seen, culprit = {device.id for device in devices if preflight.plain(device.id) in shown}, None
        return {device.id: _sentence(device, value, culprit) for device in devices if device.id not in seen}

    def _read(self, value: str, devices: Sequence[Device], sure: bool) -> tuple[set[str], str | None]:
        """The ids that are visible, and the entry that hides all behind it. Raises `NotReadable`."""
        entries = [entry.strip() for entry in value.split(",")]
        if entries[0].startswith(UUID_PREFIXES):
            return _collect(entries, lambda entry: _by_uuid(entry, entries[0][:4], devices, sure))
        if _number(entries[0]) is None:
            return set(), entries[0] or None
        gpus = [device for device in devices if not device.is_mig]
        by_bus = self._environment.get(ORDER) == BY_BUS and all(gpu.pci_bus_id for gpu in gpus)
        if not sure or len(gpus) < len(devices) or any(gpu.blocked for gpu in gpus) or not (by_bus or len(gpus) == 1):
            raise NotReadable
        gpus.sort(key=lambda gpu: gpu.pci_bus_id or "")
        return _collect(entries, lambda entry: _by_number(entry, gpus))


def _collect(entries: Sequence[str], find: Callable[[str], str | None]) -> tuple[set[str], str | None]:
    seen: set[str] = set()
    for entry in entries:
        found = find(entry)
        if found is None:
            return seen, entry
        if found in seen:
            return set(), entry
        seen.add(found)
    return seen, None


def _by_uuid(entry: str, kind: str, devices: Sequence[Device], sure: bool) -> str | None:
    if "/" in entry:
        raise NotReadable  # a MIG device by its GPU and two numbers, as drivers before 470 wrote it
    matches = [device for device in devices if device.id.lower().startswith(entry.lower())]
    if not entry.startswith(kind) or len(matches) > 1:  # a beginning that several share
        return None
    if not matches:
        if sure:
            return None
        raise NotReadable  # it may be that of a GPU that sleeps, or cannot be listed
    if matches[0].blocked:
        raise NotReadable  # a GPU in MIG mode: which of its MIG devices is then used, the driver knows
    return matches[0].id


def _by_number(entry: str, gpus: Sequence[Device]) -> str | None:
    number = _number(entry)
    return gpus[number].id if number is not None and 0 <= number < len(gpus) else None


def _number(entry: str) -> int | None:
    """As C's strtol would read it: `1gpu` is 1."""
    found = re.match(r"[+-]?\d+", entry)
    return None if found is None else int(found[0])


def _sentence(device: Device, value: str, culprit: str | None) -> str:
    what = f"{VISIBLE}={value}" if value else f"{VISIBLE}, which is set and empty,"
    sentence = f"{device.label} is hidden by {what} in the environment that Trainyard was started in. "
    if culprit and culprit != "-1":
        sentence += f"(Its entry “{culprit}” names no GPU here, or one twice, and CUDA passes over all from there on.) "
    return f"{sentence}Start Trainyard with another value, or without the variable, to use this device."


def _let_sleep() -> NoReturn:
    raise RunError("A GPU sleeps, and the CUDA driver would wake it up to answer.")


def _ask(environment: Mapping[str, str]) -> list[str]:
    return preflight.visible(environment, timeout_s=ASK_TIMEOUT_S)
