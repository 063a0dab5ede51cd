"""Which cores the CPU devices are made of, and how they are dealt among them."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

COUNT_VARIABLE = "TRAINYARD_CPU_DEVICES"
CORES_VARIABLE = "TRAINYARD_CPU_CORES"
PART = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
"""A core, or a range of them, the last included."""


def shares(environ: Mapping[str, str] = os.environ) -> list[tuple[int, ...]]:
    """The cores of each CPU device. Raises `ValueError` for a bad setting of one of the two variables."""
    cores = wanted(environ.get(CORES_VARIABLE), os.sched_getaffinity(0))
    return deal(cores, device_count(environ.get(COUNT_VARIABLE), len(cores)))


def wanted(setting: str | None, usable: Collection[int]) -> list[int]:
    """The cores to be dealt, in this order: those of the setting, else all that are usable.

    `setting`: a list as `taskset --cpu-list` takes it, `1,0` or `2-7`. Raises `ValueError` where it cannot be followed.
    """
    if setting is None:
        return sorted(usable)
    parts = [PART.fullmatch(part) for part in setting.split(",")]
    cores = [core for part in parts if part for core in range(int(part[1]), int(part[2] or part[1]) + 1)]
    if None in parts or not cores or len(set(cores)) < len(cores) or not set(cores) <= set(usable):
        raise ValueError(
            f"{CORES_VARIABLE}={setting} does not fit this machine: "
            f"name each core once, as in 2-5 or 1,0, of {_listed(sorted(usable))}, or unset it."
        )
    return cores


def device_count(setting: str | None, cores: int) -> int:
    """How many CPU devices there are to be. Raises `ValueError` for a setting that cannot be followed."""
    if setting is None:
        return min(2, cores)
    # Not int() alone: it would take "+2", "1_0" and " 2 ".
    count = int(setting) if setting.isascii() and setting.isdecimal() else 0
    if not 1 <= count <= cores:
        raise ValueError(
            f"{COUNT_VARIABLE}={setting} does not fit this machine: "
            f"set it to a whole number from 1 to {cores}, the number of cores, or unset it."
        )
    return count


def deal(cores: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Cores in `count` neighbouring shares whose sizes differ by one at most, the larger ones first."""
    size, larger = divmod(len(cores), count)
    remaining = iter(cores)
    return [tuple(islice(remaining, size + (number < larger))) for number in range(count)]


def _listed(cores: Sequence[int]) -> str:
    """`0-3,8`."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
