"""Find out from the driver whether devices are free: no program on them, and their memory back, for some seconds."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from core.devices.nvidia.preflight import TIMEOUT_S
from core.devices.sampler import Sampler
from core.history.device_use import program_name
from core.language import join_sentences, tr
from core.system.process_info import glance
from core.units import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Device, Sample, Survey

QUIET_S, MAX_QUIET_S = 10.0, 3600.0
VARIABLE = "TRAINYARD_QUEUE_QUIET_S"
"""The environment variable with the seconds for which a device must be free, in place of `QUIET_S`."""
POLL_S = 0.5
STALE_S = 5.0
"""Seconds after which a reading does not say any more that a device is free."""
LARGE_BYTES = 2**30
LARGE_SHARE = 0.05
"""Memory from which a program counts as using a device, the smaller of both: a desktop uses a little of every GPU."""


def quiet_s() -> float:
    """Return for how many seconds a device must be free."""
    try:
        given = float(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return QUIET_S
    return given if 0 <= given <= MAX_QUIET_S else QUIET_S


def busy_devices(device_ids: Sequence[str], free_bytes: int) -> dict[str, str]:
    """Return by device id a sentence why it is not free; returns as soon as one is not. Takes `quiet_s()` at least.

    `free_bytes`: memory that must be free; then other programs may use the rest. 0: no program may use the device.
    """
    with Sampler.for_run(device_ids) as sampler:
        survey = sampler.survey(TIMEOUT_S)
        sampler.set_period(POLL_S, processes_s=POLL_S)
        until = time.monotonic() + quiet_s()
        while True:
            if busy := judge(survey, device_ids, free_bytes) or _unread(survey, device_ids):
                return busy
            if time.monotonic() >= until:
                return {}
            time.sleep(POLL_S / 2)
            survey = sampler.poll()


def judge(survey: Survey, device_ids: Sequence[str], free_bytes: int) -> dict[str, str]:
    """Return by device id a sentence why it is not free, from one reading."""
    devices = {device.id: device for device in survey.devices}
    samples = {sample.device_id: sample for sample in survey.samples}
    busy = {}
    for device_id in device_ids:
        device, sample = devices.get(device_id), samples.get(device_id)
        if device is None:
            gone = tr(
                "Device {device} is not on this machine any more. Check its power and its driver, or queue the run on "
                "another.",
                device=device_id,
            )
            busy[device_id] = join_sentences([tr(survey.banner or ""), gone])
        elif why := device.blocked or (sample.lost if sample is not None else None):
            busy[device_id] = tr("{device} cannot be used: {why}", device=device.label, why=why)
        elif sample is not None and (why := _user(device, sample, free_bytes)):
            busy[device_id] = why
    return busy


def _unread(survey: Survey, device_ids: Sequence[str]) -> dict[str, str]:
    """Return by device id that it gives no readings, as while its driver hangs: it is not known to be free."""
    now = time.monotonic()
    ages = [(device, survey.age_s(device.id, now)) for device in survey.devices if device.id in device_ids]
    return {
        device.id: tr(
            "{device} has given no reading for {seconds:g} s, so it is not known to be free. `trainyard devices` shows "
            "what its driver says.",
            device=device.label,
            seconds=STALE_S,
        )
        for device, age_s in ages
        if age_s is None or age_s > STALE_S
    }


def _user(device: Device, sample: Sample, free_bytes: int) -> str | None:
    total, used = device.memory_total_bytes, sample.memory_used_bytes
    if free_bytes:
        if total is None or used is None or total - used >= free_bytes:
            return None
        return tr(
            "{device} has {free} of free memory, and the run needs {needed}.",
            device=device.label,
            free=size(max(0, total - used)),
            needed=size(free_bytes),
        )
    large = LARGE_BYTES if total is None else min(LARGE_BYTES, LARGE_SHARE * total)
    listed = sorted(sample.processes or (), key=lambda each: each.memory_used_bytes or 0, reverse=True)
    unexplained = (used or 0) - sum(each.memory_used_bytes or 0 for each in listed)
    known = listed[0] if listed and (listed[0].memory_used_bytes or 0) >= large else None
    unknown = next((each for each in listed if each.memory_used_bytes is None), None)
    if known is not None or (unknown is not None and unexplained >= large):
        process = known or unknown
        assert process is not None
        seen = replace(glance(process.pid), memory_used_bytes=process.memory_used_bytes)
        return tr(
            "{device} is used by {program} (pid {pid}), which is no run of this queue.",
            device=device.label,
            program=program_name(seen),
            pid=process.pid,
        )
    if unexplained >= large and not device.shared_memory:
        return tr(
            "{used} of {device}'s memory are in use, by no process that the driver lists.",
            used=size(used),
            device=device.label,
        )
    return None
