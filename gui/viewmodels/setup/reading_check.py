"""What the readings of the chosen devices say before a start: which are lost, old, taken or free."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from core.devices.device import Device, Sample, Survey
from core.language import tr, tr_plural
from core.text import first_names, join_names
from gui.style.formatting import gigabytes, memory, percent

HeldBy = Mapping[str, str]

MUCH_SHARE, BUSY_PERCENT = 0.5, 50.0
"""Share of a GPU's memory, and per cent of its time: above them, other processes are mentioned before a start."""
MAX_TAKEN = 3
"""Largest number of devices that are mentioned one by one."""


def lost(chosen: Sequence[Device], survey: Survey, remedy: str) -> list[str]:
    """Return a sentence for each of these devices that no longer answers."""
    gone = {sample.device_id for sample in survey.samples if sample.lost}
    return [
        tr("{label} is lost: it no longer answers. {remedy}", label=device.label, remedy=remedy)
        for device in chosen
        if device.id in gone
    ]


def readings_state(survey: Survey, stale_age_s: Mapping[str, int], held_by: HeldBy, ticked: Collection[str]) -> object:
    """Return everything that a check says about the readings of these devices: if it changes, check again."""
    chosen = [device for device in survey.devices if device.id in ticked]
    readings = [
        (sample.device_id, sample.lost, stale_age_s.get(sample.device_id), sample.processes, _rounded(sample))
        for sample in survey.samples
        if sample.device_id in ticked
    ]
    return readings, [device.blocked for device in chosen], _taken(chosen, survey, held_by)


def _rounded(sample: Sample) -> str:
    return gigabytes(sample.memory_used_bytes)


def reading_doubts(chosen: Sequence[Device], survey: Survey, stale_age_s: Mapping[str, int], held_by: HeldBy) -> str:
    """Return what does not prevent a start but should be known before it; the empty string if nothing."""
    old = [device for device in chosen if device.id in stale_age_s]
    if old:
        which = join_names(first_names([device.label for device in old], 3))
        age_s = max(stale_age_s[device.id] for device in old)
        return tr_plural(
            "the last reading of {devices} is {seconds} s old",
            "the last readings of {devices} are up to {seconds} s old",
            len(old),
            devices=which,
            seconds=age_s,
        )
    return tr("; ").join(first_names(_taken(chosen, survey, held_by), MAX_TAKEN))


def _taken(chosen: Sequence[Device], survey: Survey, held_by: HeldBy) -> list[str]:
    """Return the GPUs that others use most: `GPU 1 is held by blender (anna): 20.0 / 24 GB in use, about 90 % busy`.

    CPU devices are left out: their memory is the memory of the machine.
    """
    samples = {sample.device_id: sample for sample in survey.samples}
    taken = []
    for device in chosen:
        sample = samples.get(device.id)
        if sample is None or device.kind == "cpu" or device.shared_memory:
            continue
        share = (sample.memory_used_bytes or 0) / (device.memory_total_bytes or float("inf"))
        busy = sample.utilisation_percent or 0.0
        who = held_by.get(device.id)
        if share >= MUCH_SHARE or (who and busy >= BUSY_PERCENT):
            use = _use(device, sample)
            by = tr("{label} is held by {program}: {use}", label=device.label, program=who, use=use)
            taken.append(by if who else tr("{label} is taken: {use}", label=device.label, use=use))
    return taken


def _use(device: Device, sample: Sample) -> str:
    """Return how full and how busy a device is; in tens of per cent, so that the sentence seldom changes."""
    busy = sample.utilisation_percent
    full = "" if sample.memory_used_bytes is None else memory(sample.memory_used_bytes, device.memory_total_bytes)
    parts = (
        full and tr("{memory} in use", memory=full),
        "" if busy is None else tr("about {percent} busy", percent=percent(round(busy, -1))),
    )
    return tr(", ").join(part for part in parts if part)


def ready_sentence(chosen: Sequence[Device], survey: Survey) -> str:
    """Return the sentence that a spec can start, with the free memory if it is known."""
    names = (
        join_names([device.label for device in chosen])
        if len(chosen) <= 3
        else tr("{count} devices", count=len(chosen))
    )
    count, free, unused = len(chosen), _min_free_bytes(chosen, survey), _are_unused(chosen, survey)
    if free is None:
        if not unused:
            return tr("Ready: {names}.", names=names)
        return tr_plural("Ready: {names} is free.", "Ready: {names} are free.", count, names=names)
    size = gigabytes(free)
    if unused:
        return tr_plural(
            "Ready: {names} is free, {size} GB.",
            "Ready: {names} are free, {size} GB or more each.",
            count,
            names=names,
            size=size,
        )
    return tr_plural(
        "Ready: {names} has {size} GB free.",
        "Ready: {names} have {size} GB or more each free.",
        count,
        names=names,
        size=size,
    )


def _are_unused(chosen: Sequence[Device], survey: Survey) -> bool:
    """Return whether no process uses these devices, as far as drivers list them. CPU devices are used by runs only."""
    listed_on = {sample.device_id: sample.processes for sample in survey.samples}
    return all(device.kind == "cpu" or listed_on.get(device.id) == () for device in chosen)


def _min_free_bytes(chosen: Sequence[Device], survey: Survey) -> int | None:
    """Return the smallest free memory in bytes; None if one is unknown. CPU devices share the memory of the machine."""
    used = {sample.device_id: sample.memory_used_bytes for sample in survey.samples}
    free = []
    for device in chosen:
        taken = used.get(device.id)
        if device.kind == "cpu" or taken is None or device.memory_total_bytes is None:
            return None
        free.append(device.memory_total_bytes - taken)
    return min(free, default=None)
