"""The agent: a process that answers requests on its input and output for another machine.

It opens no port by itself (`core.config.abilities.listen` does, for ranks that start later), and writes nothing
else to its output. It ends at the end of its input, whatever it is doing, because the other side is gone. What it
starts ends with it: the helper processes of drivers end at the end of their own input.
"""

from __future__ import annotations

import os
import platform
import select
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from core.errors import RunError
from core.hosts import protocol
from core.language import stored, tr
from core.system.installation import version
from core.system.processes import here, user_name

CHUNK_BYTES = 65536
END_S = 1.0
"""Seconds for all requests together to end, such as to close the helper process of a driver."""
STDIN, STDOUT, STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an ability is asked for."""

    runs_root: Path
    terms: Mapping[str, Any] = field(default_factory=dict)
    peer: str = ""
    """The address from which the other machine has connected; empty if the carrier does not tell."""
    cancelled: Event = field(default_factory=Event)
    """Set when the stream is no longer wanted, or the agent ends."""


Abilities = Mapping[str, Callable[[Request], object]]
"""By the name under which a connection asks for it.

An ability returns its answer, or yields the items of a stream until that is cancelled. Each request has a thread of its
own. An ability that cannot do what was asked raises `ValueError`, `RunError` or `OSError`.
"""


class Agent:
    """Answers the requests of one connection. Each is worked on by a thread, so that a slow one delays no other."""

    def __init__(
        self, runs_root: Path, requests: int, answers: int, abilities: Abilities,
        silence_s: float = protocol.SILENCE_S, *, peer: str = "",
    ) -> None:
        """`requests`, `answers`: the descriptors to read from and to write to. `peer`: as in `Request`."""
        self._runs_root = runs_root
        self._requests, self._answers = requests, answers
        self._abilities, self._silence_s, self._peer = abilities, silence_s, peer
        self._writing = Lock()
        self._last = 0
        self._open: dict[int, tuple[Thread, Event]] = {}
        """By id, the requests that are not answered yet."""

    def run(self) -> None:
        """Say hello, and answer until the other side is gone. Raises `ValueError` for a message that makes no sense."""
        try:
            # What a login shell has printed may have no end of line.
            hello = protocol.Hello(
                protocol=protocol.VERSION, version=version(), python=platform.python_version(),
                user=user_name(os.getuid()), identity=here(), runs=str(self._runs_root.absolute()),
            )
            self._write_line(b"\n" + protocol.encode(hello.document(time.time())))
            for line in self._lines():
                self._take(protocol.decode(line))
        except OSError:  # the other side no longer reads the answers
            return
        finally:
            self._end()

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the input until it ends, the answers are no longer read, or it is silent for too long."""
        poller = select.poll()
        poller.register(self._requests, select.POLLIN)
        poller.register(self._answers, 0)  # only its errors
        rest = b""
        while ready := poller.poll(self._silence_s * 1000):
            if any(descriptor == self._answers for descriptor, _ in ready):
                return
            chunk = os.read(self._requests, CHUNK_BYTES)
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > protocol.MAX_LINE_BYTES:
                raise ValueError(tr("It has a line of more than {limit} bytes.", limit=protocol.MAX_LINE_BYTES))

    def _take(self, message: dict[str, Any]) -> None:
        if message == protocol.ALIVE:
            return
        self._open = {number: each for number, each in self._open.items() if each[0].is_alive()}
        number, ability, terms = message.get("id"), message.get("do"), message.get("with", {})
        if isinstance(cancelled := message.get("cancel"), int):
            if cancelled in self._open:
                self._open[cancelled][1].set()
            return
        if not isinstance(number, int) or not isinstance(ability, str) or not isinstance(terms, dict):
            raise ValueError(tr("A message is no request."))  # noqa: TRY004 (what the other side wrote)
        if number <= self._last or len(self._open) >= protocol.MAX_OPEN:
            raise ValueError(tr("There are too many requests, or two with one number."))
        self._last = number
        request = Request(runs_root=self._runs_root, terms=terms, peer=self._peer)
        thread = Thread(target=self._answer, args=(number, ability, request), daemon=True)
        self._open[number] = thread, request.cancelled
        thread.start()

    def _answer(self, number: int, ability: str, request: Request) -> None:
        with suppress(OSError):  # the other side no longer reads
            try:
                line = protocol.encode({"id": number, "answer": self._result(number, ability, request)})
            except OSError as error:
                line = _refusal(
                    number, tr("{path} cannot be read: {reason}.", path=error.filename, reason=error.strerror)
                )
            except (ValueError, RunError) as error:
                line = _refusal(number, str(error))
            except Exception as error:  # noqa: BLE001 (the other side shows our own error, and the agent goes on)
                traceback.print_exc()
                line = _refusal(number, tr("An error of Trainyard there: {kind}: {error}",
                                           kind=type(error).__name__, error=error))
            self._write_line(line)

    def _result(self, number: int, ability: str, request: Request) -> object:
        """Return the answer of an ability; of a stream, send the items and return None."""
        if ability not in self._abilities:
            raise ValueError(tr("The Trainyard there cannot do this: {ability}.", ability=ability))
        result = self._abilities[ability](request)
        if not isinstance(result, Iterator):
            return result
        with closing(result):  # type: ignore[type-var]  # a generator
            for item in result:
                line = protocol.encode({"id": number, "item": item})
                try:
                    self._write_line(line)
                except OSError:  # the main thread sees it, too, and ends all
                    break
        return None

    def _write_line(self, line: bytes) -> None:
        """Write a line as a whole. Waits while the other side does not read."""
        with self._writing:
            while line:
                line = line[os.write(self._answers, line) :]

    def _end(self) -> None:
        """Cancel all requests, and wait a moment for their ends."""
        deadline = time.monotonic() + END_S
        for _, cancelled in self._open.values():
            cancelled.set()
        for thread, _ in self._open.values():
            thread.join(max(0.0, deadline - time.monotonic()))


def serve(runs_root: Path, abilities: Abilities, peer: str = "") -> None:
    """Answer on this process's input and output, then end it. Never returns. `peer`: as in `Request`."""
    requests, answers = os.dup(STDIN), os.dup(STDOUT)
    os.set_blocking(answers, True)
    # Libraries print now and then, which must not mix with the answers, and no child may read the requests.
    os.dup2(STDERR, STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    status = 0
    try:
        Agent(runs_root, requests, answers, abilities, peer=peer).run()
    except ValueError as error:
        sys.stderr.write(f"trainyard: {error}\n")
        status = 1
    except KeyboardInterrupt:
        status = 1
    os._exit(status)  # without waiting for a thread that hangs in a driver or a file system


def _refusal(number: int, sentence: str) -> bytes:
    return protocol.encode({"id": number, "error": stored(sentence)})
