"""Divide the cores of this machine among the CPU devices."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from core.language import tr

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

COUNT_VARIABLE = "TRAINYARD_CPU_DEVICES"
CORES_VARIABLE = "TRAINYARD_CPU_CORES"
MIN_DEVICES, MIN_OFFERED = 2, 8
"""Devices where nothing is set, and devices that can be asked for, however few the cores: devices then share cores, so
that a run on several devices can be tried on every machine."""
PART = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
"""A core, or a range of cores including the last."""


def shares(environ: Mapping[str, str] = os.environ) -> list[tuple[int, ...]]:
    """Return the cores of each CPU device. Raises `ValueError` if one of the two variables has a bad value."""
    cores = usable_cores(environ.get(CORES_VARIABLE), os.sched_getaffinity(0))
    return divide(cores, device_count(environ.get(COUNT_VARIABLE), len(cores)))


def usable_cores(setting: str | None, usable: Collection[int]) -> list[int]:
    """Return the cores to divide, in order: those of the setting, or all usable ones without it.

    `setting`: a list as for `taskset --cpu-list`, `1,0` or `2-7`. Raises `ValueError` if it does not fit the machine.
    """
    if setting is None:
        return sorted(usable)
    parts = [PART.fullmatch(part) for part in setting.split(",")]
    cores = [core for part in parts if part for core in range(int(part[1]), int(part[2] or part[1]) + 1)]
    if None in parts or not cores or len(set(cores)) < len(cores) or not set(cores) <= set(usable):
        raise ValueError(
            tr(
                "{variable}={value} does not fit this machine: "
                "name each core once, as in 2-5 or 1,0, of {cores}, or unset it.",
                variable=CORES_VARIABLE,
                value=setting,
                cores=_listed(sorted(usable)),
            )
        )
    return cores


def device_count(setting: str | None, cores: int) -> int:
    """Return the number of CPU devices. Raises `ValueError` if the setting does not fit the machine."""
    if setting is None:
        return MIN_DEVICES
    most = max(cores, MIN_OFFERED)
    # int() alone would accept "+2", "1_0" and " 2 ".
    count = int(setting) if setting.isascii() and setting.isdecimal() else 0
    if not 1 <= count <= most:
        raise ValueError(
            tr(
                "{variable}={value} does not fit this machine: "
                "set it to a whole number from 1 to {count}, or unset it.",
                variable=COUNT_VARIABLE,
                value=setting,
                count=most,
            )
        )
    return count


def divide(cores: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Divide cores into `count` contiguous shares whose sizes differ by one at most, the larger ones first.

    With more devices than cores, each device has one core, and the devices take the cores in turn.
    """
    if count > len(cores):
        return [(cores[number % len(cores)],) for number in range(count)]
    size, larger = divmod(len(cores), count)
    remaining = iter(cores)
    return [tuple(islice(remaining, size + (number < larger))) for number in range(count)]


def _listed(cores: Sequence[int]) -> str:
    """`0-3,8`."""
    ranges: list[list[int]] = []
    for core in cores:
        if ranges and core == ranges[-1][-1] + 1:
            ranges[-1].append(core)
        else:
            ranges.append([core])
    return ",".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in ranges)
