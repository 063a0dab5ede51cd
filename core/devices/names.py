"""Names of devices in sentences and tables: products, kinds with their numbers, and labels in a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from core.language import tr, tr_plural
from core.text import MAX_NAMES, first_names, join_names

WITH_CORES = re.compile(r"(?P<model>.*), (?P<count>\d{1,6}) cores?", re.DOTALL)
"""The name of a CPU device: see `core.devices.cpu`."""
BETWEEN_KINDS, TIMES = " + ", " × "
"""Between kinds of devices, and between their number and kind: see `core.history.summary.device_text`."""
NOISE = ("(R)", "(TM)", "NVIDIA ", "GeForce ", " Processor", " CPU")
"""Parts of product names to leave out."""
MIN_ROW = 3
"""Devices with consecutive numbers that are named by the first and the last."""


def shown_name(name: str) -> str:
    """Return the name of a device, or of several kinds with their numbers, in the language in use."""
    return BETWEEN_KINDS.join(map(_shown, name.split(BETWEEN_KINDS)))


def short_kinds(devices: str) -> str:
    """Return devices with the short names of their kinds."""
    kinds = (each.split(TIMES, 1) for each in devices.split(BETWEEN_KINDS))
    return BETWEEN_KINDS.join(TIMES.join([*number, short_name(kind)]) for *number, kind in kinds)


@cache
def short_name(name: str) -> str:
    """Return the short name of a product: `RTX 4090`."""
    for noise in NOISE:
        name = name.replace(noise, " " if noise.startswith(" ") else "")
    return " ".join(name.split()).replace(" ,", ",")


def _shown(name: str) -> str:
    found = WITH_CORES.fullmatch(name)
    if found is None:
        return name
    return tr_plural("{model}, {count} core", "{model}, {count} cores", int(found["count"]), model=found["model"])


def join_labels(labels: Sequence[str]) -> str:
    """Return labels of devices as `join_names` does, but `GPU 0 to 7` for three or more in a row."""
    return _row(labels) or join_names(labels)


def _row(labels: Sequence[str]) -> str:
    """Return `GPU 0 to 7`; the empty string for labels that are no row."""
    kinds = {label.rpartition(" ")[0] for label in labels}
    numbers = [label.rpartition(" ")[2] for label in labels]
    if len(labels) < MIN_ROW or len(kinds) != 1 or not all(number.isdecimal() for number in numbers):
        return ""
    first, last = int(numbers[0]), int(numbers[-1])
    if last - first >= len(labels) or [int(number) for number in numbers] != list(range(first, last + 1)):
        return ""
    return tr("{kind} {first} to {last}", kind=kinds.pop(), first=first, last=last)


def list_labels(labels: Sequence[str]) -> str:
    """Return `GPU 0 to 3` or `GPU 0, 2 and 5`, or all labels where they are of several kinds."""
    kinds = {label.rpartition(" ")[0] for label in labels}
    numbers = [label.rpartition(" ")[2] for label in labels]
    if row := _row(labels):
        return row
    if len(labels) > 1 and len(kinds) == 1 and all(number.isdecimal() for number in numbers):
        return f"{kinds.pop()} {join_names(first_names(numbers, limit=2 * MAX_NAMES))}".lstrip()
    return join_names(first_names(labels, limit=2 * MAX_NAMES)) or tr("no device")
