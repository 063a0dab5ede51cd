"""A host in words, its devices as they can be used now, and what uses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from core.devices.device import Device, Survey, device_here, full_name, own_id
from core.hosts.carrier import Failure
from core.hosts.connection import Clock
from core.hosts.inquiry import HostState, Phase
from core.language import join_sentences, tr, tr_plural
from core.text import duration, join_names
from gui.base.formatting import percent
from gui.machine.device_rows import DeviceRow, OnDevices

SHOWN_ID = 12
"""Characters of the UUID of a device whose label is not known."""


def usable_survey(state: HostState, wanted: Collection[str]) -> Survey:
    """Return the devices of a host and their readings; a device that cannot be used now is blocked and says why.

    `wanted`: the ids of devices that the user has chosen. Those that the host does not have, or has not told yet, are
    there, too: a choice is never dropped in silence.
    """
    survey, name = state.survey, state.host.name
    is_silent = state.phase is not Phase.REACHABLE
    why = _why_silent(state) if is_silent else ""
    devices = tuple(replace(each, blocked=why) for each in survey.devices) if is_silent else survey.devices
    known = {each.id for each in devices}
    missing = [each for each in wanted if each not in known]
    if not devices and not is_silent:
        why = tr("The devices of {host} are not read yet.", host=name)
    return replace(survey, devices=(*devices, *(_unknown_device(name, each, why) for each in missing)))


def _why_silent(state: HostState) -> str:
    if state.phase is Phase.CONNECTING:
        return tr("{host} has not answered yet.", host=state.host.name)
    return tr("{host} is not reachable. Untick its devices, or wait until it is back.", host=state.host.name)


def _unknown_device(host: str, device_id: str, why: str) -> Device:
    """Return a device of which only the id is known. `why`: why no more is; empty if the host does not have it."""
    own = own_id(device_id)
    why = why or tr("{device} is not on {host} now. Untick it, or wait until it is back.", device=own, host=host)
    kind, _, number = own.partition(":")
    is_cpu = kind == "cpu"
    label = f"CPU {number}" if is_cpu else own[:SHOWN_ID]
    device = Device(id=own, kind="cpu" if is_cpu else "nvidia", label=label, name="", blocked=why)
    return device_here(host, device)


def shown_rows(state: HostState, rows: Sequence[DeviceRow], wanted: Collection[str]) -> list[DeviceRow]:
    """Return the rows to show: of a host that is not reachable only the chosen ones, since no other can be chosen."""
    if state.phase is Phase.NOT_REACHABLE:
        return [row for row in rows if row.id in wanted]
    return [*rows]


def on_host(state: HostState, stale_age_s: Mapping[str, int]) -> OnDevices:
    """Return what is known of the devices of a host apart from their readings, by their ids here."""
    uses = {full_name(state.host.name, device): use for device, use in state.uses.by_device.items()}
    return OnDevices(
        used_by={device: join_names(use.names) for device, use in uses.items() if use.names},
        held_by={device: use.program for device, use in uses.items() if use.program},
        stale_age_s=stale_age_s,
    )


LONG_S = 60.0
"""Offset of a clock from which on it is shown as a duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHeading:
    """A host as the list shows it above its devices."""

    name: str
    mark: str = ""
    """The shape beside its name: `tick`, `ring`, `cross` or `alert`."""
    tone: str = "muted"
    """The colour of its state: `good`, `muted`, `warn` or `bad`."""
    state: str = ""
    """`reachable`, `connecting …`, `not reachable`."""
    clock: str = ""
    """`clock +0.1 s`; the empty string while it is not known."""
    devices: str = ""
    """`8 GPUs · 34 %`, for a host that is folded."""
    sentence: str = ""
    """What is wrong, and what to do."""
    failed: bool = False
    """Whether it could not be reached the last time."""
    may_retry: bool = False
    """Whether the user may have it asked again now."""
    tip: str = ""

    @property
    def words(self) -> str:
        """`reachable · clock +0.1 s`."""
        return " · ".join(part for part in (self.state, self.clock) if part)

    @property
    def accessible_text(self) -> str:
        """The heading as text for a screen reader."""
        parts = (self.name, self.state, self.clock, self.devices, self.sentence)
        return tr(", ").join(part for part in parts if part)


def host_heading(state: HostState, rows: Sequence[DeviceRow]) -> HostHeading:
    """Return the heading of a host with these devices."""
    mark, tone, words = _state(state)
    failed = state.phase is not Phase.REACHABLE and state.error is not None
    notes = (str(state.error) if failed else "", state.clock_problem, tr(state.survey.banner or ""))
    return HostHeading(
        name=state.host.name,
        mark=mark,
        tone=tone,
        state=words,
        clock=_clock(state.clock) if state.phase is Phase.REACHABLE else "",
        devices=_devices(rows) if state.phase is Phase.REACHABLE else "",
        sentence=join_sentences([each for each in notes if each]),
        failed=failed,
        may_retry=state.phase is Phase.NOT_REACHABLE,
        tip=_tip(state),
    )


def _state(state: HostState) -> tuple[str, str, str]:
    """Return shape, tone and words of the state."""
    if state.phase is Phase.CONNECTING:
        return "ring", "muted", tr("connecting …")
    if state.phase is Phase.REACHABLE:
        return ("alert", "warn", tr("reachable")) if state.clock_problem else ("tick", "good", tr("reachable"))
    is_other = state.error is not None and state.error.failure is Failure.OTHER_VERSION
    return "cross", "bad", tr("other version") if is_other else tr("not reachable")


def _clock(clock: Clock | None) -> str:
    if clock is None:
        return ""
    if abs(clock.offset_s) < LONG_S:
        return tr("clock {offset:+.1f} s", offset=clock.offset_s)
    sign = "+" if clock.offset_s > 0 else "−"
    return tr("clock {offset}", offset=f"{sign}{duration(abs(clock.offset_s))}")


def _devices(rows: Sequence[DeviceRow]) -> str:
    """Return how many devices there are, GPUs if there is one, and how busy they are on average."""
    gpus = [row for row in rows if not row.is_cpu]
    count = len(gpus) or len(rows)
    if not count:
        return ""
    busy = [row.utilisation_percent for row in gpus or rows if row.utilisation_percent is not None]
    words = tr_plural("{count} device", "{count} devices", count)
    if gpus:
        words = tr_plural("{count} GPU", "{count} GPUs", count)
    return f"{words} · {percent(sum(busy) / len(busy) if busy else None)}"


def _tip(state: HostState) -> str:
    host, hello, clock = state.host, state.hello, state.clock
    lines = [f"{host.name}: {host.address}", tr("Command: {command}", command=host.command)]
    if hello is not None:
        lines.append(
            tr("Trainyard {version}, Python {python}, user {user} on {host}", version=hello.version,
               python=hello.python, user=hello.user, host=hello.host)
        )
        lines.append(tr("Folder of runs there: {folder}", folder=hello.runs))
    if clock is not None:
        lines.append(
            tr("Clock: {offset:+.2f} s; an answer takes {seconds:.2f} s", offset=clock.offset_s,
               seconds=clock.round_trip_s)
        )
    return "\n".join(lines)
