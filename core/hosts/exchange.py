"""Devices, readings and what uses the devices, as they travel from an agent. Nothing that arrives is trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.devices.device import Device, Sample
from core.devices.helper import HelperAnswer, to_document
from core.language import tr
from core.schema.codec import Sentence, decode, encode, named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.history.device_use import DeviceUse

MAX_NAMES = 100
"""Runs and processes of one device that travel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """What uses one device of a host."""

    runs: tuple[str, ...] = ()
    """The names of the folders of live runs, newest first."""
    names: tuple[str, ...] = ()
    """The names of these runs."""
    others: tuple[str, ...] = ()
    """Other processes, in words: `pid 4711 python (anna)`."""
    program: str = ""
    """The one with the most memory, if that is worth mentioning: `blender (anna)`."""

    def __post_init__(self) -> None:
        if len(self.names) != len(self.runs):
            raise ValueError("names")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUses:
    """What uses the devices of a host, by their ids, and how much memory of the host programs can still get."""

    by_device: Mapping[str, HostUse] = field(metadata=named("uses"))
    available_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDevices:
    """The devices of a host, their readings, and by device id what uses them."""

    devices: tuple[Device, ...] = ()
    samples: tuple[Sample, ...] = ()
    banner: Sentence | None = None
    uses: Mapping[str, HostUse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readings:
    """Readings as `core.devices.helper.to_document` writes them."""

    time: float
    samples: tuple[Sample | None, ...]
    """None for a sample that is the one at this place of the previous answer, read again at `time`."""
    devices: tuple[Device, ...] | None = None
    banner: Sentence | None = None
    absent: bool = False


def pack_uses(uses: Mapping[str, DeviceUse], available_bytes: int | None = None) -> dict[str, Any]:
    """Return what uses the devices, as JSON. `available_bytes`: see `HostUses`."""
    by_device = {
        device: HostUse(
            runs=tuple(run.dir.name for run in use.runs[:MAX_NAMES]),
            names=tuple(run.name for run in use.runs[:MAX_NAMES]),
            others=tuple(each.words for each in use.others[:MAX_NAMES]),
            program=use.largest,
        )
        for device, use in uses.items()
    }
    return encode(HostUses(by_device=by_device, available_bytes=available_bytes))


def unpack_devices(document: Any) -> HostDevices:  # noqa: ANN401 (JSON)
    """Return what the ability `devices` has answered. Raises `ValueError` for anything else."""
    answer, uses = unpack_readings(document), unpack_uses(document).by_device
    return HostDevices(devices=answer.devices or (), samples=answer.samples, banner=answer.banner, uses=uses)


def unpack_uses(document: Any) -> HostUses:  # noqa: ANN401 (JSON)
    """Return what uses the devices, by their ids there. Raises `ValueError` for anything else."""
    return decode(HostUses, document)


def pack_readings(answer: HelperAnswer, previous: Sequence[Sample] = ()) -> dict[str, Any]:
    """Return readings as JSON. `previous`: the samples of the answer before, which are not described again."""
    return to_document(answer, previous)


def unpack_readings(document: Any, previous: Sequence[Sample] = ()) -> HelperAnswer:  # noqa: ANN401 (JSON)
    """Return readings from `pack_readings`. Fields that this version does not know are left out.

    Raises `ValueError` for anything else.
    """
    found = decode(_Readings, document)
    if None in found.samples[len(previous) :]:
        raise ValueError(tr("It lacks {missing}.", missing="samples"))
    return HelperAnswer(
        devices=found.devices, banner=found.banner, absent=found.absent,
        samples=tuple([previous[place].at(found.time) if each is None else each
                       for place, each in enumerate(found.samples)]),
    )  # fmt: skip
