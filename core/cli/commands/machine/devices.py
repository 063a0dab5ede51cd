"""The command `devices`: the devices of this machine and of the known hosts, and what uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from core.cli.commands.common import survey
from core.cli.output import say_json, say_rows, warn
from core.devices.device import Device
from core.devices.host_names import full_name
from core.devices.names import shown_name
from core.history.device_use import DeviceUse, devices_in_use, use_sentences
from core.hosts.host_list import load
from core.language import tr, tr_stored
from core.table import Column
from core.text import first_names, join_names
from core.units import size

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Mapping, Sequence

    from core.devices.device import Sample
    from core.hosts.inquiry import HostReport

LARGE_SHARE = 0.25
"""Part of a GPU's memory from which other programs on it are reported before a start. A desktop uses less."""
MAX_NAMES = 2
"""Processes of a device that are named; the others are counted."""


def devices(options: Namespace) -> int:
    """List the devices of this machine and of the known hosts, how busy they are, and what uses them."""
    listed = load()
    if listed.problem:
        warn(listed.problem)
    if not listed.hosts:
        rows, shown = _local(options)
    else:
        from core.hosts.inquiry import Inquiry  # only where there are hosts

        with Inquiry(listed.hosts, devices=True) as inquiry:
            rows, shown = _local(options)
            for report in inquiry.reports():
                further_rows, further_shown = _remote(report)
                rows += further_rows
                shown += further_shown
    if options.json:
        say_json(rows)
        return 0
    return say_rows(options, COLUMNS, shown)


class Shown(NamedTuple):
    """A device with what people read of it."""

    name: str
    device: Device
    sample: Sample | None
    users: Sequence[str]


Rows = tuple[list[dict[str, Any]], list[Shown]]
"""Devices for programs and for people."""


def _local(options: Namespace) -> Rows:
    """Return the devices of this machine."""
    found = survey()
    uses = devices_in_use(found, options.runs)
    samples = {sample.device_id: sample for sample in found.samples}
    rows, shown = [], []
    for device in found.devices:
        sample, use = samples.get(device.id), uses.get(device.id, DeviceUse())
        rows.append(_row(device, sample, [run.dir.name for run in use.runs]))
        shown.append(Shown(device.short_name, device, sample, _users(use)))
    if found.banner:
        warn(tr_stored(found.banner))
    return rows, shown


def _remote(report: HostReport) -> Rows:
    """Return the devices of a host. A host that cannot be asked is one row that says why."""
    name = report.host.name
    found = report.devices
    if found is None:
        warn(str(report.error))
        return [_unasked(report)], []
    samples = {sample.device_id: sample for sample in found.samples}
    rows, shown = [], []
    for device in found.devices:
        sample, use = samples.get(device.id), found.uses.get(device.id)
        runs, others = (use.runs, use.others) if use else ((), ())
        named = {"id": full_name(name, device.id), "short_name": full_name(name, device.short_name), "host": name}
        rows.append({**_row(device, sample, list(runs)), **named})
        users = [*(tr("run {dir}", dir=each) for each in runs), *([_first(others)] if others else [])]
        shown.append(Shown(named["short_name"], device, sample, users))
    if found.banner:
        warn(tr("{name}: {reason}", name=name, reason=tr_stored(found.banner)))
    return rows, shown


def _unasked(report: HostReport) -> dict[str, Any]:
    """Return the row of a host that cannot be asked, with the fields of a device that is lost and cannot be chosen."""
    host, why = report.host, str(report.error)
    place = Device(id=host.name, kind="host", label=host.name, name=host.address, blocked=why)
    return {**_row(place, None, []), "lost": why, "host": host.name}


def _row(device: Device, sample: Sample | None, runs: list[str]) -> dict[str, Any]:
    """Return a device and its reading, for programs."""
    return {
        "id": device.id, "kind": device.kind, "label": device.label, "name": device.name,
        "memory_total_bytes": device.memory_total_bytes, "pci_bus_id": device.pci_bus_id,
        "minor": device.minor, "cores": list(device.cores), "shared_memory": device.shared_memory,
        "utilisation_percent": sample.utilisation_percent if sample else None,
        "memory_used_bytes": sample.memory_used_bytes if sample else None,
        "asleep": sample.asleep if sample else None,
        "lost": sample.lost if sample else None,
        "blocked": device.blocked, "short_name": device.short_name,
        "runs": runs, "processes": _processes(sample),
    }  # fmt: skip


def sharing_sentence(chosen: Collection[Device], uses: Mapping[str, DeviceUse]) -> str | None:
    """Return what else uses the devices of a run; None if nothing does, or other programs use little memory."""
    users: dict[str, list[str]] = {}
    for device in chosen:
        use, total = uses.get(device.id, DeviceUse()), device.memory_total_bytes
        users[device.id] = [tr("run {dir}", dir=run.dir.name) for run in use.runs]
        if total and (use.others_bytes or 0) >= LARGE_SHARE * total:
            users[device.id].append(
                tr(
                    "{use} with {others_bytes} of its {total}",
                    use=_others(use),
                    others_bytes=size(use.others_bytes),
                    total=size(total),
                )
            )
    sentences = use_sentences(chosen, users).values()
    return tr("This run shares its devices: {sentences}.", sentences="; ".join(sentences)) if sentences else None


def _users(use: DeviceUse) -> list[str]:
    return [*(tr("run {dir}", dir=run.dir.name) for run in use.runs), *([_others(use)] if use.others else [])]


def _others(use: DeviceUse) -> str:
    """Return `pid 4711 python (anna) and 2 more`, the process with the most memory first."""
    return _first([each.words for each in use.others])


def _first(processes: Sequence[str]) -> str:
    return join_names(first_names(processes, MAX_NAMES))


def _processes(sample: Sample | None) -> list[dict[str, int | None]] | None:
    """Return the processes that the driver lists; None if it cannot list any."""
    if sample is None or sample.processes is None:
        return None
    return [{"pid": each.pid, "memory_used_bytes": each.memory_used_bytes} for each in sample.processes]


def _memory(device: Device, sample: Sample | None) -> str | None:
    used = sample.memory_used_bytes if sample else None
    if device.memory_total_bytes is None:
        return None if used is None else size(used)
    return tr(
        "{used} of {memory_total_bytes}",
        used="-" if used is None else size(used),
        memory_total_bytes=size(device.memory_total_bytes),
    )


def _percent(sample: Sample | None) -> str | None:
    percent = sample.utilisation_percent if sample else None
    return None if percent is None else f"{percent:.0f} %"


def _note(device: Device, sample: Sample | None) -> str | None:
    """Return why the device cannot be read or used for training; None if it can."""
    if why := (sample.lost if sample else None) or device.blocked:
        return tr_stored(why)
    return tr("asleep") if sample and sample.asleep else None


COLUMNS: tuple[Column[Shown], ...] = (
    Column("device", text=lambda each: each.name),
    Column("name", text=lambda each: shown_name(each.device.name)),
    Column("memory", text=lambda each: _memory(each.device, each.sample)),
    Column("utilisation", text=lambda each: _percent(each.sample)),
    Column("held by", text=lambda each: ", ".join(each.users) or None),
    Column("note", text=lambda each: _note(each.device, each.sample), is_optional=True),
)
