"""The helper process: reads one kind of device and writes an answer per reading to its stdout.

    python -m core.devices.helper TARGET OPTIONS     (see `start_command`)

It ends at the end of its stdin, at once and whatever it is doing: its client is gone. It ends by itself
when there is nothing to read; a later one, in a fresh process, gets a fresh session with the driver.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from importlib import import_module
from threading import Event, Thread
from typing import TYPE_CHECKING

from core.devices.protocol import ALIVE, HelperAnswer, to_line
from core.devices.reader import DriverError, NoDevices, Options, ReadIntervals, ReadSchedule

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from core.devices.device import Device, Sample
    from core.devices.reader import Reader

STDIN, STDOUT, STDERR = 0, 1, 2
ANSWERS = 63  # where nothing else is
BEAT_S = 1.0  # after so long without an answer it is said that the driver is slow, but answers
FAILED = 1  # the exit status after an error of our own; 0: ask again later


def start_command(target: str, options: Options, pace: ReadIntervals) -> list[str]:
    """The command line of a helper that reads a kind; it is to be run in the folder that holds `core`."""
    only = None if options.only is None else sorted(options.only)
    terms = {"only": only, "retry_s": options.retry_s, "wake": sorted(options.wake), "pace": asdict(pace)}
    return [sys.executable, "-m", __name__, target, json.dumps(terms)]


def intervals_line(pace: ReadIntervals) -> bytes:
    """What the client writes to a helper's stdin to change its pace."""
    return json.dumps(asdict(pace)).encode() + b"\n"


class HelperInput:
    """What the client says. A thread listens, so that the end is heard while the driver hangs."""

    def __init__(self, pace: ReadIntervals) -> None:
        self.pace = pace
        self._news = Event()

    def listen(self) -> None:
        """Start listening; the end of stdin ends the process."""
        Thread(target=self._follow, daemon=True).start()

    def wait(self, timeout_s: float) -> None:
        """Return when the time is over, or earlier when the pace was changed."""
        self._news.wait(timeout_s)
        self._news.clear()

    def _follow(self) -> None:
        with os.fdopen(STDIN, "rb", closefd=False) as stdin:
            for line in stdin:
                self.pace = ReadIntervals(**json.loads(line))
                self._news.set()
        os._exit(0)  # no clean-up: shutting the driver's library down under a running call crashes


class HelperOutput:
    """What is told to the client."""

    def __init__(self) -> None:
        self._spoke_at = time.monotonic()
        self._said: Sequence[Sample] = ()
        """The samples of the last answer: what reads the same is not said again."""

    def say(self, answer: HelperAnswer) -> None:
        """An answer."""
        self._speak(to_line(answer, self._said))
        self._said = answer.samples

    def beat(self) -> None:
        """A driver's call has come back: tell so, unless something was told just now."""
        if time.monotonic() - self._spoke_at > BEAT_S:
            self._speak(ALIVE + b"\n")

    def _speak(self, line: bytes) -> None:
        _write(line)
        self._spoke_at = time.monotonic()


def serve(reader: Reader, control: HelperInput, voice: HelperOutput) -> None:
    """Read and write until no device is left that answers."""
    schedule = ReadSchedule(control.pace)
    known: tuple[Device, ...] | None = None
    while True:
        schedule.change(control.pace)
        tiers = schedule.take(time.monotonic())
        if tiers:
            samples = reader.read(time.time(), tiers)
            devices = reader.devices
            changed = devices if devices != known else None
            voice.say(HelperAnswer(devices=changed, samples=tuple(samples), banner=reader.banner))
            known = devices
            if all(sample.lost for sample in samples):
                return  # none, or all of them lost: then only a fresh session with the driver can help
        control.wait(schedule.wait_s(time.monotonic()))


def main(arguments: Collection[str]) -> None:
    """Open the kind's reader and serve. Never returns."""
    target, text = arguments
    terms = json.loads(text)
    only = None if terms["only"] is None else frozenset(terms["only"])
    control, voice = HelperInput(ReadIntervals(**terms["pace"])), HelperOutput()
    control.listen()
    options = Options(only=only, retry_s=terms["retry_s"], wake=frozenset(terms["wake"]), beat=voice.beat)
    try:
        serve(import_module(target).open_reader(options), control, voice)
    except NoDevices:
        voice.say(HelperAnswer(devices=(), absent=True))
    except DriverError as trouble:
        voice.say(HelperAnswer(devices=(), banner=str(trouble)))
    os._exit(0)


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(ANSWERS, line) :]


def _tell_and_end(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    # What goes wrong here goes wrong in the client's sight: nobody reads a helper's stderr.
    if not isinstance(error, BrokenPipeError):
        _write(to_line(HelperAnswer(banner=f"Reading the devices failed: {kind.__name__}: {error}.")))
    os._exit(FAILED)


if __name__ == "__main__":
    os.dup2(STDOUT, ANSWERS)
    os.dup2(STDERR, STDOUT)  # driver libraries print now and then: no word of theirs may stand among the answers
    sys.excepthook = _tell_and_end
    main(sys.argv[1:])
