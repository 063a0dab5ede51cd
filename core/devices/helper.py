"""The helper process: read one kind of device and write an answer per reading to stdout, as a line of JSON.

    python -m core.devices.helper TARGET OPTIONS     (see `start_command`)

It ends at the end of its stdin, whatever it is doing, because its client is gone. It ends on its own when there is
nothing to read: a later helper, in a fresh process, gets a fresh session with the driver.

A device that reads as it did in the previous answer, as idle ones do, is not described again. In the place of its
sample stands `null`: the sample at this place of the previous answer, read again at `time`. Both sides therefore keep
the previous answer. Fields that are None are left out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from threading import Event, Thread
from types import TracebackType
from typing import Any

from core.devices.device import Device, Process, Sample
from core.devices.reader import DriverError, NoDevices, Options, Reader, ReadIntervals, ReadSchedule
from core.language import Message, stored, tr

ALIVE = b"{}"
"""The line that means: still reading, the driver is slow."""
ALIVE_S = 1.0
"""Seconds without an answer after which `ALIVE` is written at the driver's next return."""
STDIN, STDOUT, STDERR = 0, 1, 2
ANSWERS = 63
"""The descriptor for answers: a number that nothing else uses."""
FAILED = 1
"""Exit status after an error of our own; 0 means: try again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperAnswer:
    """One answer of a helper process."""

    devices: tuple[Device, ...] | None = None
    """The devices of the kind; None if they have not changed."""
    samples: tuple[Sample, ...] = ()
    banner: str | None = None
    absent: bool = False
    """Whether the machine has no device of the kind, so that asking again is useless."""


# -- both sides ------------------------------------------------------------------------------------

_DEVICE = tuple(field.name for field in fields(Device))
_SAMPLE = tuple(field.name for field in fields(Sample))


def to_line(answer: HelperAnswer, previous: Sequence[Sample] = ()) -> bytes:
    """Return an answer as a line, newline included. `previous`: the samples of the answer before it."""
    return json.dumps(to_document(answer, previous), separators=(",", ":")).encode() + b"\n"


def to_document(answer: HelperAnswer, previous: Sequence[Sample] = ()) -> dict[str, Any]:
    """Return an answer as JSON. `previous`: the samples of the answer before it."""
    samples = answer.samples
    now = samples[0].time if samples else 0.0
    padded = [*previous[: len(samples)], *[None] * (len(samples) - len(previous))]
    document: dict[str, Any] = {
        "time": now,
        "samples": [
            None if was is not None and sample.time == now and sample.reading == was.reading else _pack(sample, _SAMPLE)
            for sample, was in zip(samples, padded, strict=True)
        ],
    }
    if answer.devices is not None:
        document["devices"] = [_pack(device, _DEVICE) for device in answer.devices]
    if answer.banner is not None:
        document["banner"] = stored(answer.banner)
    if answer.absent:
        document["absent"] = True
    return document


def from_line(line: bytes, previous: Sequence[Sample] = ()) -> HelperAnswer:
    """Return the answer that `to_line` wrote. `previous`: the samples of the answer before it.

    Raises `ValueError`, `LookupError` or `TypeError` for anything else.
    """
    return from_document(json.loads(line), previous)


def from_document(document: dict[str, Any], previous: Sequence[Sample] = ()) -> HelperAnswer:
    """Return the answer of which `to_document` made the JSON; raises as `from_line`."""
    devices, now = document.get("devices"), document["time"]
    return HelperAnswer(
        devices=None if devices is None else tuple(map(_device, devices)),
        samples=tuple(
            [
                previous[place].at(now) if packed is None else _sample(packed)
                for place, packed in enumerate(document["samples"])
            ]
        ),
        banner=_message(document.get("banner")),
        absent=document.get("absent", False),
    )


def _pack(record: object, names: Iterable[str]) -> dict[str, Any]:
    # dataclasses.asdict copies deeply and takes ten times as long, once a second for each device.
    return {name: stored(value) for name in names if (value := getattr(record, name)) is not None}


def _message(data: object) -> str | None:
    return None if data is None else Message.read(data)


def _device(packed: dict[str, Any]) -> Device:
    capability = packed.get("compute_capability")
    tuples = {"cores": tuple(packed["cores"]), "compute_capability": capability and tuple(capability)}
    return Device(**{**packed, **tuples, "blocked": _message(packed.get("blocked"))})


def _sample(packed: dict[str, Any]) -> Sample:
    packed["clock_reasons"] = tuple(packed["clock_reasons"])
    packed["lost"], packed["fault"] = _message(packed.get("lost")), _message(packed.get("fault"))
    if (processes := packed.get("processes")) is not None:
        packed["processes"] = tuple(Process(*each) for each in processes)
    return Sample(**packed)


# -- the client ------------------------------------------------------------------------------------


def start_command(target: str, options: Options, intervals: ReadIntervals) -> list[str]:
    """Return the command line of a helper that reads a kind."""
    from core.system.own_processes import HELPER, own_command  # imported here: the process that reads starts without it

    only = None if options.only is None else sorted(options.only)
    terms = {"only": only, "retry_s": options.retry_s, "wake": sorted(options.wake), "pace": asdict(intervals)}
    return own_command(HELPER, target, json.dumps(terms))


def intervals_line(intervals: ReadIntervals) -> bytes:
    """Return the line that changes the intervals of a running helper."""
    return json.dumps(asdict(intervals)).encode() + b"\n"


# -- the helper process ----------------------------------------------------------------------------


class HelperInput:
    """Reads stdin on a thread, so that its end is noticed while the driver hangs."""

    def __init__(self, intervals: ReadIntervals) -> None:
        """Start the thread, which exits the process at the end of stdin."""
        self.intervals = intervals
        self._changed = Event()
        Thread(target=self._follow, daemon=True).start()

    def wait(self, timeout_s: float) -> None:
        """Return after `timeout_s` seconds, or earlier if the intervals were changed."""
        self._changed.wait(timeout_s)
        self._changed.clear()

    def _follow(self) -> None:
        with os.fdopen(STDIN, "rb", closefd=False) as stdin:
            for line in stdin:
                self.intervals = ReadIntervals(**json.loads(line))
                self._changed.set()
        os._exit(0)  # no clean-up: shutting the driver's library down during a call crashes


class HelperOutput:
    """Writes answers and signs of life to the client."""

    def __init__(self) -> None:
        self._wrote_at = time.monotonic()
        self._previous: Sequence[Sample] = ()

    def answer(self, answer: HelperAnswer) -> None:
        self._write(to_line(answer, self._previous))
        self._previous = answer.samples

    def report_alive(self) -> None:
        """Write `ALIVE` if nothing was written for `ALIVE_S`; called whenever the driver returns from a call."""
        if time.monotonic() - self._wrote_at > ALIVE_S:
            self._write(ALIVE + b"\n")

    def _write(self, line: bytes) -> None:
        _write(line)
        self._wrote_at = time.monotonic()


def serve(reader: Reader, requests: HelperInput, output: HelperOutput) -> None:
    """Read and write until no device answers."""
    schedule = ReadSchedule(requests.intervals)
    known: tuple[Device, ...] | None = None
    while True:
        schedule.intervals = requests.intervals
        tiers = schedule.take(time.monotonic())
        if tiers:
            samples = reader.read(time.time(), tiers)
            devices = reader.devices
            changed = devices if devices != known else None
            output.answer(HelperAnswer(devices=changed, samples=tuple(samples), banner=reader.banner))
            known = devices
            if all(sample.lost for sample in samples):
                return  # only a fresh session with the driver can find a device again
        requests.wait(schedule.wait_s(time.monotonic()))


def main(arguments: Collection[str]) -> None:
    """Open the reader of the kind and serve. Never returns."""
    target, text = arguments
    terms = json.loads(text)
    only = None if terms["only"] is None else frozenset(terms["only"])
    requests, output = HelperInput(ReadIntervals(**terms["pace"])), HelperOutput()
    options = Options(
        only=only, retry_s=terms["retry_s"], wake=frozenset(terms["wake"]), report_alive=output.report_alive
    )
    try:
        serve(import_module(target).open_reader(options), requests, output)
    except NoDevices:
        output.answer(HelperAnswer(devices=(), absent=True))
    except DriverError as error:
        output.answer(HelperAnswer(devices=(), banner=str(error)))
    os._exit(0)


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(ANSWERS, line) :]


def _report_and_exit(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    # An error is shown by the client: a helper's stderr is read by nothing.
    if not isinstance(error, BrokenPipeError):
        banner = tr("Reading the devices failed: {kind}: {error}.", kind=kind.__name__, error=error)
        _write(to_line(HelperAnswer(banner=banner)))
    os._exit(FAILED)


if __name__ == "__main__":
    os.dup2(STDOUT, ANSWERS)
    os.dup2(STDERR, STDOUT)  # driver libraries print now and then, which must not mix with the answers
    sys.excepthook = _report_and_exit
    main(sys.argv[1:])
