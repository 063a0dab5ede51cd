"""What travels between a connection and an agent: one JSON object a line, in UTF-8.

The agent begins with its hello; what comes before it is noise of a login shell. Then:

    connection to agent   {"id": 1, "do": "devices", "with": {...}}    a request; ids rise
                          {"cancel": 1}                                end a stream
                          {}                                           still here
    agent to connection   {"id": 1, "item": ...}                       one of the items of a stream
                          {"id": 1, "answer": ...}                     the answer, or the end of a stream
                          {"id": 1, "error": "..."}                    why there is none, in a sentence

Requests are answered in any order. The agent ends at the end of its input, or when it has read nothing for `SILENCE_S`.
A change that an older side would not understand raises `VERSION`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from core.devices.device import Device, Sample
from core.devices.helper import HelperAnswer
from core.language import tr
from core.schema.codec import Sentence, named
from core.schema.codec import decode as decode_record
from core.schema.codec import encode as encode_record
from core.schema.files import parse_json
from core.system.processes import HostId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.history.device_use import DeviceUse


VERSION = 4
MARK = "trainyard agent"
"""What tells a hello from noise."""
MAX_LINE_BYTES = 1024 * 1024
MAX_NOISE_BYTES = 256 * 1024
"""What may come before a hello."""
STREAMS = frozenset({"hold", "listen", "readings", "runs"})
"""What a connection asks for that is answered by items until it is cancelled."""
MAX_OPEN = 64
"""Requests of one connection that an agent works on at once."""
ALIVE: dict[str, Any] = {}
ALIVE_S = 10.0
"""Seconds without a message after which a connection sends `ALIVE`."""
SILENCE_S = 60.0
"""Seconds after which an agent takes a connection for lost: a network that is gone does not close anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What an agent says first."""

    protocol: int
    version: str
    """That of Trainyard."""
    python: str
    user: str
    identity: HostId
    runs: str
    """The folder of its runs."""

    @property
    def host(self) -> str:
        """Its own name of the machine."""
        return self.identity.host

    def document(self, time: float) -> dict[str, Any]:
        """Return the first line of an agent, as JSON. `time`: unix seconds by its clock."""
        return {"hello": MARK, "time": time, **asdict(self)}


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as a line. Raises `ValueError` if it is too long."""
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(tr("The answer has more than {limit} bytes.", limit=MAX_LINE_BYTES))
    return line


def decode(line: bytes) -> dict[str, Any]:
    """Return the message of a line. Raises `ValueError` with a sentence for anything else."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(tr("It has a line of more than {limit} bytes.", limit=MAX_LINE_BYTES))
    message = parse_json(line)
    if not isinstance(message, dict):
        raise ValueError(tr("It is no object of JSON."))  # noqa: TRY004 (what the other side wrote)
    return message


def hello_of(line: bytes) -> Hello | None:
    """Return the hello in a line; None if it is noise. Raises `ValueError` for a hello that lacks something.

    Of another protocol only the number and the version of Trainyard are looked at.
    """
    if MARK.encode() not in line:
        return None
    try:
        found = decode(line.strip())
    except ValueError:
        return None
    if found.get("hello") != MARK:
        return None
    protocol = found.get("protocol")
    if not isinstance(protocol, int):
        raise ValueError(tr("Its hello has no version of the protocol."))  # noqa: TRY004 (what the other side wrote)
    if protocol != VERSION:
        nowhere = HostId(host="", boot="", pid_namespace="")
        version = str(found.get("version") or "")
        return Hello(protocol=protocol, version=version, python="", user="", identity=nowhere, runs="")
    try:
        return decode_record(Hello, found)
    except ValueError as error:
        raise ValueError(tr("Its hello lacks something.")) from error


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
    return encode_record(HostUses(by_device=by_device, available_bytes=available_bytes))


def unpack_devices(document: Any) -> HostDevices:  # noqa: ANN401 (JSON)
    """Return what the ability `devices` has answered. Raises `ValueError` for anything else."""
    answer, uses = unpack_readings(document), decode_record(HostUses, document).by_device
    return HostDevices(devices=answer.devices or (), samples=answer.samples, banner=answer.banner, uses=uses)


def unpack_readings(document: Any, previous: Sequence[Sample] = ()) -> HelperAnswer:  # noqa: ANN401 (JSON)
    """Return readings from `core.devices.helper.to_document`. Raises `ValueError` for anything else."""
    found = decode_record(_Readings, document)
    if None in found.samples[len(previous) :]:
        raise ValueError(tr("It lacks {missing}.", missing="samples"))
    return HelperAnswer(
        devices=found.devices, banner=found.banner, absent=found.absent,
        samples=tuple([previous[place].at(found.time) if each is None else each
                       for place, each in enumerate(found.samples)]),
    )
