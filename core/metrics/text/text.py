"""The bytes of a log as the lines that a person would read, given in pieces that may be cut anywhere.

A carriage return, or the run of backspaces that Keras prints, begins a line anew: what stood there was a progress
bar, and is replaced. Colours and other control sequences are gone, what is no UTF-8 is marked, and
a line without end is cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from core.metrics.text.needles import holds, lines_with

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 1 << 16
"""So many bytes of a line are read, the rest is passed over."""
LONG_RUN = 8
"""So many backspaces in a row take back a line, fewer some characters."""
TAKEN_BACK = b"\x08" * LONG_RUN
REDRAWN = re.compile(rb"[\r\x08]*\r[\r\x08]*|\x08{%d,}" % LONG_RUN)
SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+][0-9A-Z]|[@-Z\\-_=>78])")
CONTROL = dict.fromkeys((*range(9), *range(11, 32), 127))


class PrintedLine(NamedTuple):
    """One line, without its end."""

    text: str
    redrawn: bool = False  # a later one stands in its place on the screen: a progress bar on its way


class PrintedLines:
    """Takes a log's bytes as they come and gives its lines, each once, when it has ended.

    Where the bytes are cut makes no difference. At most `LIMIT` bytes and a little are kept.
    """

    def __init__(self, *, all_of_them: bool = False) -> None:
        """`all_of_them`: also the lines in which no metric can be, which are passed over quickly otherwise."""
        self._all, self._rest = all_of_them, b""

    def take(self, data: bytes) -> list[PrintedLine]:
        """The lines that have ended with these bytes."""
        data = self._rest + data
        # What ends the data may be the first half of "\r\n", or of a run of backspaces.
        decided = len(data.rstrip(b"\r\x08"))
        end = 1 + max(data.rfind(b"\n", 0, decided), data.rfind(b"\r", 0, decided), _run_end(data, decided))
        self._rest = _bounded(data[end:])
        return list(self._lines(data[:end]))

    def end(self) -> list[PrintedLine]:
        """The line that has not ended, when nothing more will come."""
        data, self._rest = self._rest, b""
        return list(self._lines(data))

    def _lines(self, data: bytes) -> Iterator[PrintedLine]:
        for begin, end in _every_line(data) if self._all else lines_with(data):
            line = data[begin:end]
            if b"\r" in line or b"\x08" in line:
                yield from self._drawn(line, ended=data[end : end + 1] == b"\n")
            elif text := _text(line[:LIMIT]):
                yield PrintedLine(text)

    def _drawn(self, line: bytes, *, ended: bool) -> Iterator[PrintedLine]:
        """What stood at that place one after the other; the last of them stayed there if a newline `ended` it."""
        body = line.rstrip(b"\r\x08")
        drawn = REDRAWN.split(body)
        for at, part in enumerate(drawn, start=1):
            if (self._all or holds(part)) and (text := _text(part[:LIMIT])):
                yield PrintedLine(text=text, redrawn=at < len(drawn) or not (ended or body == line))


def _every_line(data: bytes) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        yield begin, end
        begin = end + 1


def _run_end(data: bytes, decided: int) -> int:
    """The index of the last backspace of the last long run of them, or -1."""
    begin = data.rfind(TAKEN_BACK, 0, decided)
    return begin + LONG_RUN - 1 if begin >= 0 else -1


def _bounded(rest: bytes) -> bytes:
    """A line without end, cut; what may yet turn out to begin it anew is kept."""
    if len(rest) <= LIMIT:
        return rest
    body = rest.rstrip(b"\r\x08")
    tail = rest[len(body) :]
    if len(tail) > 2 * LONG_RUN:
        tail = TAKEN_BACK + b"\r" * (b"\r" in tail)
    return body[:LIMIT] + tail


def _text(line: bytes) -> str:
    text = line.decode("utf-8", errors="replace")
    if "\x1b" in text:
        text = SEQUENCE.sub("", text)
    if "\x08" in text:
        text = _taken_back(text)
    if not text.isprintable():  # which is asked sooner than done
        text = text.translate(CONTROL)
    return text.strip()


def _taken_back(text: str) -> str:
    """Text in which each backspace has taken one character back."""
    kept: list[str] = []
    for character in text:
        if character != "\x08":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)
