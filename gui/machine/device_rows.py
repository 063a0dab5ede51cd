"""Devices as rows of a list, with their readings in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.devices.device import HEAT, LABEL_SEPARATOR, Device, Sample, Survey
from core.devices.names import short_name, shown_name
from core.language import Message, tr, tr_plural
from gui.base.formatting import DASH, memory, percent

MAX_FREE_SHARE, MAX_FREE_PERCENT = 0.1, 20.0
"""Share of a device's memory, and per cent of its time: above them, a device is not called free."""
ROUNDING = 200
"""Steps of a bar's length that are worth a repaint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One device, ready to be shown."""

    id: str
    label: str
    name: str
    full_name: str
    colour: str
    """`#rrggbb`, the same as in the plots."""
    utilisation_percent: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    lost: str | None = None
    fault: str | None = None
    """Sentences on what its driver says is wrong with it."""
    blocked: str | None = None
    """Why it cannot be ticked, as a sentence."""
    host: str = ""
    """The machine that it is on; the empty string for this machine."""
    used_by: str | None = None
    """Names of the active runs on it."""
    held_by: str | None = None
    """The program that uses most of its memory, apart from runs: `blender (anna)`."""
    kept_for: str | None = None
    """For whom the queue sets it aside: `Kept for run bert.`"""
    stale_age_s: int | None = None
    """Age of its readings in seconds, if they are outdated; else None."""
    shared_memory: bool = False
    is_mig: bool = False
    """True if it is a part of a GPU."""
    is_cpu: bool = False
    asleep: bool = False
    clock_reasons: tuple[str, ...] = ()
    slowdowns: tuple[str, ...] = ()
    """The `clock_reasons` that mean trouble: see `core.devices.device.SLOWDOWNS`."""

    @property
    def current(self) -> bool:
        """True if its readings are up to date."""
        return not self.lost and self.stale_age_s is None

    @property
    def own_label(self) -> str:
        """The label without the machine, as it is painted below the heading of its machine."""
        return self.label.removeprefix(f"{self.host}{LABEL_SEPARATOR}") if self.host else self.label

    @property
    def utilisation(self) -> str:
        """`82 %`."""
        return percent(self.utilisation_percent if self.current else None)

    @property
    def memory(self) -> str:
        """`9.1 / 24 GB`."""
        return memory(self.memory_used_bytes if self.current else None, self.memory_total_bytes)

    @property
    def memory_fraction(self) -> float | None:
        """Used share of the memory; None if unknown."""
        if not self.current or self.memory_used_bytes is None or not self.memory_total_bytes:
            return None
        return self.memory_used_bytes / self.memory_total_bytes

    @property
    def status(self) -> str:
        """`lost: ...`, `12 s old`, `runs digits_cnn`, `blocked · used by blender (anna)`, or the empty string."""
        if self.lost:  # the driver's words first: the row has room for little, and the tooltip has the sentence
            return tr("lost: {reason}", reason=Message.read(self.lost).named("words") or tr(self.lost))
        blocked = tr("blocked") if self.blocked else ""
        old = tr("{seconds} s old", seconds=self.stale_age_s) if self.stale_age_s is not None else ""
        on_it = (
            tr("runs {name}", name=self.used_by)
            if self.used_by
            else tr("used by {name}", name=self.held_by)
            if self.held_by
            else ""
        )
        if not on_it and self.kept_for:
            on_it = self.kept_for.rstrip(".。")
        kind = tr("shared memory") if self.shared_memory else tr("asleep") if self.asleep else ""
        return " · ".join(part for part in (blocked, old, on_it, kind) if part)

    @property
    def why_blocked(self) -> str:
        """Why it cannot be ticked, as it is shown; the empty string if it can."""
        return tr(self.blocked) if self.blocked else ""

    @property
    def user(self) -> str:
        """The runs on it, or else the program that uses most of it; the empty string if none is known."""
        return self.used_by or self.held_by or ""

    @property
    def free(self) -> bool:
        """True if it can be ticked, and nothing is known or seen to use it."""
        idle = (self.utilisation_percent or 0.0) <= MAX_FREE_PERCENT
        empty = (self.memory_fraction or 0.0) <= MAX_FREE_SHARE
        unused = not self.user and (self.is_cpu or (idle and empty))
        return unused and self.current and not self.blocked and not self.asleep and not self.kept_for

    @property
    def temperature(self) -> str:
        """`64 °C`, or the empty string."""
        known = self.current and self.temperature_celsius is not None
        return f"{self.temperature_celsius:.0f} °C" if known else ""

    @property
    def power(self) -> str:
        """`312 W`, or the empty string."""
        return f"{self.power_watts:.0f} W" if self.current and self.power_watts is not None else ""

    @property
    def power_of_limit(self) -> str:
        """`312 of 450 W`; without the limit if that is unknown."""
        if not self.power or not self.power_limit_watts:
            return self.power
        return tr(
            "{power:.0f} of {limit:.0f} W",
            power=self.power_watts,
            limit=self.power_limit_watts,
        )

    @property
    def temperature_and_power(self) -> str:
        """`64 °C   312 of 450 W`; unknown values are left out."""
        return "   ".join(part for part in (self.temperature, self.power_of_limit) if part)

    @property
    def slowed(self) -> str:
        """`Slowed down: too hot`, or the empty string."""
        return (
            tr("Slowed down: {reasons}", reasons=tr(", ").join(map(tr, self.clock_reasons)))
            if self.clock_reasons and self.current
            else ""
        )

    @property
    def hot(self) -> bool:
        """True if it is slowed down by heat; a slowdown of another kind concerns its power."""
        return self.current and any(reason in HEAT for reason in self.slowdowns)

    @property
    def in_trouble(self) -> bool:
        """True if it has a fault, or is slowed down by heat, by its power supply, or by its hardware's protection."""
        return self.current and bool(self.slowdowns or self.fault)

    @property
    def tip(self) -> str:
        """Everything about the device, one item per line."""
        lines = (
            f"{self.label}: {self.full_name}",
            self.id,
            *self._readings(),
            tr("lost: {reason}", reason=tr(self.lost)) if self.lost else self.status,
            self.why_blocked,
            self.slowed,
            tr(self.fault or ""),
        )
        return "\n".join(line for line in lines if line)

    def _readings(self) -> tuple[str, ...]:
        if self.current:
            return (self.temperature_and_power,)
        if self.stale_age_s is None:
            return ()
        last = (percent(self.utilisation_percent), memory(self.memory_used_bytes, self.memory_total_bytes))
        values = tr(", ").join(last)
        return (tr("Last read {seconds} s ago: {values}", seconds=self.stale_age_s, values=values),)

    @property
    def accessible_text(self) -> str:
        """The row as text for a screen reader."""
        if self.lost:
            return tr(", ").join((self.label, self.name, self.status))
        busy = tr("unknown") if self.utilisation == DASH else self.utilisation
        readings = (
            tr("utilisation {busy}", busy=busy),
            tr("memory {memory}", memory=self.memory),
            self.temperature,
            self.power_of_limit,
            self.slowed,
            tr(self.fault or ""),
        )
        free = tr("free") if self.free else ""
        parts = (self.label, self.name, *readings, self.status, self.why_blocked, free)
        return tr(", ").join(part for part in parts if part)

    @property
    def tick_inputs(self) -> tuple[object, ...]:
        """What decides whether it can be ticked."""
        return self.id, self.lost, self.blocked, self.is_mig

    @property
    def widths(self) -> tuple[object, ...]:
        """What decides how much room the parts of its row need."""
        memory = self.memory_total_bytes, self.shared_memory
        power = self.power_limit_watts, not self.power, self.in_trouble
        return self.own_label, self.user, self.free, self.blocked, power, memory

    @property
    def shown(self) -> tuple[object, ...]:
        """What is painted and said of it: if this is as before, the row need not be painted again."""
        length = round(ROUNDING * (self.memory_fraction or 0.0))
        return self.tip, self.accessible_text, length, self.colour, self.slowdowns, self.is_mig, self.asleep


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevices:
    """What is known about the devices apart from their readings, each by device id."""

    used_by: Mapping[str, str] = field(default_factory=dict)
    """Names of the active runs."""
    held_by: Mapping[str, str] = field(default_factory=dict)
    """The largest other programs: see `core.history.device_use.largest_others`."""
    kept_for: Mapping[str, str] = field(default_factory=dict)
    """Sentences for whom the queue sets free devices aside."""
    memory_of_run: Mapping[str, float] = field(default_factory=dict)
    """Bytes that the shown run uses on CPU devices; only the run reports them."""
    stale_age_s: Mapping[str, int] = field(default_factory=dict)
    """Age of outdated readings in seconds."""

    def of(self, device_id: str) -> tuple[object, ...]:
        """Return everything known about one device."""
        return tuple(
            each.get(device_id)
            for each in (self.used_by, self.held_by, self.kept_for, self.memory_of_run, self.stale_age_s)
        )


class DeviceRows:
    """Makes the rows. The row of an unchanged device is the same object as before."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[object, DeviceRow]] = {}
        """By device id: the inputs of its row, and the row."""

    def make(self, survey: Survey, colours: Mapping[str, str], known: OnDevices) -> list[DeviceRow]:
        """Return the rows in the order of the survey. `colours`: `#rrggbb` by device id."""
        samples = {sample.device_id: sample for sample in survey.samples}
        made: dict[str, tuple[object, DeviceRow]] = {}
        for device in survey.devices:
            sample, colour = samples.get(device.id), colours[device.id]
            inputs = (device, colour, sample and sample.reading, *known.of(device.id))
            before = self._made.get(device.id)
            made[device.id] = (
                before if before and before[0] == inputs else (inputs, _row(device, sample, colour, known))
            )
        self._made = made
        return [row for _, row in made.values()]


def _row(device: Device, sample: Sample | None, colour: str, known: OnDevices) -> DeviceRow:
    used = sample.memory_used_bytes if sample else None
    return DeviceRow(
        id=device.id,
        label=device.label,
        name=short_name(shown_name(device.name)),
        full_name=shown_name(device.name),
        colour=colour,
        utilisation_percent=sample.utilisation_percent if sample else None,
        memory_used_bytes=used if used is not None else known.memory_of_run.get(device.id),
        memory_total_bytes=device.memory_total_bytes,
        temperature_celsius=sample.temperature_celsius if sample else None,
        power_watts=sample.power_watts if sample else None,
        power_limit_watts=sample.power_limit_watts if sample else None,
        lost=sample.lost if sample else None,
        fault=sample.fault if sample else None,
        blocked=device.blocked,
        host=device.host,
        used_by=known.used_by.get(device.id),
        held_by=known.held_by.get(device.id),
        kept_for=known.kept_for.get(device.id),
        stale_age_s=known.stale_age_s.get(device.id),
        shared_memory=device.shared_memory,
        is_mig=device.is_mig,
        is_cpu=device.kind == "cpu",
        asleep=sample is not None and sample.asleep,
        clock_reasons=sample.clock_reasons if sample else (),
        slowdowns=sample.slowdowns if sample else (),
    )


def all_together(rows: Sequence[DeviceRow]) -> tuple[str, ...]:
    """Return the ids of all GPUs; those of the CPU devices if there is no GPU, since they cannot train together."""
    has_gpus = any(not row.is_cpu for row in rows)
    return tuple(row.id for row in rows if row.is_cpu is not has_gpus)


def free_devices(rows: Sequence[DeviceRow]) -> tuple[str, ...]:
    """Return the ids of those of `all_together` that nothing uses."""
    usable = all_together(rows)
    return tuple(row.id for row in rows if row.free and row.id in usable)


def obstacle(row: DeviceRow, ticked: Sequence[DeviceRow]) -> str:
    """Return why a device cannot be ticked beside the ticked ones; the empty string if it can.

    A ticked device is not in conflict with itself, so it stays ticked.
    """
    return tr(row.lost or "") or row.why_blocked or _mig_conflict(row, ticked)


def _mig_conflict(row: DeviceRow, ticked: Sequence[DeviceRow]) -> str:
    """Return why a MIG device cannot be combined with the ticked ones: see `core.config.validation`."""
    chosen = [each for each in ticked if each.host == row.host]
    if not chosen or any(each.id == row.id for each in chosen) or not any(each.is_mig for each in (row, *chosen)):
        return ""
    if len(chosen) == 1:
        first = tr("Untick {label} first.", label=chosen[0].label)
    else:
        first = tr("Untick the other devices first.")
    return f"{first} {tr('A process can use only one MIG device, and no other device with it.')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSummary:
    """The CPU devices in one line."""

    count: int = 0
    utilisation_percent: float | None = None
    """The mean over all cores of these devices."""
    host_used_bytes: int | None = None
    host_total_bytes: int | None = None
    """The memory of the machine."""

    @property
    def devices(self) -> str:
        """`2 devices · 12 %`."""
        devices = tr_plural("{count} device", "{count} devices", self.count)
        return f"{devices} · {percent(self.utilisation_percent)}"

    @property
    def memory(self) -> str:
        """`96.0 / 512 GB`."""
        return memory(self.host_used_bytes, self.host_total_bytes)

    @property
    def host_memory(self) -> str:
        """`host memory 96.0 / 512 GB`."""
        return tr("host memory {memory}", memory=self.memory)

    @property
    def accessible_text(self) -> str:
        """The line as text for a screen reader."""
        busy = percent(self.utilisation_percent)
        return tr(
            "CPU devices: {count}, utilisation {busy}, {memory}",
            count=self.count,
            busy=tr("unknown") if busy == DASH else busy,
            memory=self.host_memory,
        )


def cpu_summary(survey: Survey, available_bytes: int | None) -> CpuSummary:
    """Return what the CPU devices do. `available_bytes`: the memory of the machine that programs can still get."""
    devices = [device for device in survey.devices if device.kind == "cpu"]
    busy = {sample.device_id: sample.utilisation_percent for sample in survey.samples}
    known = [(busy[device.id], len(device.cores)) for device in devices if busy.get(device.id) is not None]
    cores = sum(count for _, count in known)
    total = next((device.memory_total_bytes for device in devices), None)
    return CpuSummary(
        count=len(devices),
        utilisation_percent=sum((each or 0.0) * count for each, count in known) / cores if cores else None,
        host_used_bytes=None if total is None or available_bytes is None else max(total - available_bytes, 0),
        host_total_bytes=total,
    )
