"""Find out which devices an inherited CUDA_VISIBLE_DEVICES leaves to this program, as the CUDA driver reads it.

Slurm, containers and shells set it to share a machine; hidden devices are listed and cannot be ticked.
The rules are those of NVIDIA's CUDA programming guide, completed by the driver's behaviour that PyTorch found (pull
request 92315, driver 525): the first entry decides between UUIDs and numbers, a number may be followed by letters, and
a device that is named twice hides all devices.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NoReturn

from core.devices.nvidia import preflight
from core.devices.nvidia.preflight import BY_BUS, ORDER, VISIBLE
from core.errors import RunError
from core.language import join_sentences, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.devices.device import Device

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
                answer = _let_sleep() if asleep else self._ask(self._environment)
            except RunError as error:
                self._retry_at = time.monotonic() + RETRY_S
                self.banner = tr(
                    "{variable}={value} is set, and its GPUs could not be determined: {error} "
                    "All are offered; set {order}={by_bus}, or name the GPUs in it by UUID.",
                    variable=VISIBLE,
                    value=value,
                    error=error,
                    order=ORDER,
                    by_bus=BY_BUS,
                )
                return {}
            shown = {preflight.plain(uuid) for uuid in answer}
            visible, bad_entry = {device.id for device in devices if preflight.plain(device.id) in shown}, None
        return {device.id: _sentence(device, value, bad_entry) for device in devices if device.id not in visible}

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
        return _collect(entries, lambda entry: _by_number(entry, gpus))


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


def _by_number(entry: str, gpus: Sequence[Device]) -> str | None:
    number = _number(entry)
    return gpus[number].id if number is not None and 0 <= number < len(gpus) else None


def _number(entry: str) -> int | None:
    """Return the number as C's strtol reads it: `1gpu` is 1."""
    found = re.match(r"[+-]?\d+", entry)
    return None if found is None else int(found[0])


def _sentence(device: Device, value: str, bad_entry: str | None) -> str:
    if value:
        sentence = tr(
            "{label} is hidden by {variable}={value} in the environment that Trainyard was started in.",
            label=device.label,
            variable=VISIBLE,
            value=value,
        )
    else:
        sentence = tr(
            "{label} is hidden by {variable}, which is set and empty, in the environment that Trainyard was "
            "started in.",
            label=device.label,
            variable=VISIBLE,
        )
    if bad_entry and bad_entry != "-1":
        ignored = tr(
            "(Its entry “{entry}” is not a GPU here, or is repeated, and CUDA ignores the rest.)", entry=bad_entry
        )
        sentence = join_sentences([sentence, ignored])
    remedy = tr("Start Trainyard with another value, or without the variable, to use this device.")
    return join_sentences([sentence, remedy])


def _let_sleep() -> NoReturn:
    raise RunError(tr("A GPU is asleep, and the CUDA driver would wake it up to answer."))


def _ask(environment: Mapping[str, str]) -> list[str]:
    return preflight.visible(environment, timeout_s=ASK_TIMEOUT_S)
