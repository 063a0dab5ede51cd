"""What the helper process tells its client: JSON lines, each an answer or `ALIVE`. Nothing is sent for None.

A device that reads as it did the last time, as idle ones do, is not described again: `null` stands in the place of its
sample, for the one that was in this place in the answer before, now read at `time`. So both sides keep the last answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from core.devices.device import Device, Process, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


ALIVE = b"{}"
"""The line that says: still at it, the driver is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperAnswer:
    """One answer of a helper process."""

    devices: tuple[Device, ...] | None = None
    """The devices of the kind; None: as before."""
    samples: tuple[Sample, ...] = ()
    banner: str | None = None
    absent: bool = False
    """The machine has no device of the kind: there is no use in asking again."""


_DEVICE = tuple(field.name for field in fields(Device))
_SAMPLE = tuple(field.name for field in fields(Sample))


def to_line(answer: HelperAnswer, before: Sequence[Sample] = ()) -> bytes:
    """One line, newline included. `before`: the samples of the answer that the client got before this one."""
    samples = answer.samples
    now = samples[0].time if samples else 0.0
    document: dict[str, Any] = {
        "time": now,
        "samples": [
            None if was is not None and sample.time == now and sample.reading == was.reading else _pack(sample, _SAMPLE)
            for sample, was in zip(samples, _as_long(before, len(samples)), strict=True)
        ],
    }
    if answer.devices is not None:
        document["devices"] = [_pack(device, _DEVICE) for device in answer.devices]
    if answer.banner is not None:
        document["banner"] = answer.banner
    if answer.absent:
        document["absent"] = True
    return json.dumps(document, separators=(",", ":"), default=_pack_process).encode() + b"\n"


def from_line(line: bytes, before: Sequence[Sample] = ()) -> HelperAnswer:
    """The answer of a whole line that `to_line` wrote. `before`: the samples of the answer before this one.

    Raises `ValueError`, `LookupError` or `TypeError` for anything else.
    """
    document = json.loads(line)
    devices, now = document.get("devices"), document["time"]
    return HelperAnswer(
        devices=None if devices is None else tuple(_device(packed) for packed in devices),
        samples=tuple(
            [
                before[place].at(now) if packed is None else _sample(packed)
                for place, packed in enumerate(document["samples"])
            ]
        ),
        banner=document.get("banner"),
        absent=document.get("absent", False),
    )


def _as_long(samples: Sequence[Sample], count: int) -> list[Sample | None]:
    return [*samples[:count], *[None] * (count - len(samples))]


def _pack(record: object, names: Iterable[str]) -> dict[str, Any]:
    # dataclasses.asdict copies deeply and takes ten times as long, once a second for each device.
    return {name: value for name in names if (value := getattr(record, name)) is not None}


def _pack_process(process: object) -> list[int | None]:
    assert isinstance(process, Process)
    return [process.pid, process.memory_used_bytes]


def _device(packed: dict[str, Any]) -> Device:
    return Device(**{**packed, "cores": tuple(packed["cores"])})


def _sample(packed: dict[str, Any]) -> Sample:
    packed["clock_reasons"] = tuple(packed["clock_reasons"])
    if (processes := packed.get("processes")) is not None:
        packed["processes"] = tuple(Process(pid=pid, memory_used_bytes=used) for pid, used in processes)
    return Sample(**packed)
