"""The devices of a host as they can be used now, and what uses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from core.devices.device import Device, Survey, device_here, full_name, own_id
from core.hosts.inquiry import HostState, Phase
from core.language import tr
from core.text import join_names
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
