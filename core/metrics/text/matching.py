"""Matches a regular expression in a process of its own, which the system ends when a line takes too long.

Python's `re` cannot be interrupted from within: a signal's handler is run between its steps, and not all of them look
(measured: an expression of a thousand alternatives held Python 3.11.2 for 40 s). What always works is a signal that
kills, set to come after so much processor time: there is no handler in that, and nothing for `re` to look at.

This file is run by its path, under any Python, and imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys

HEADER = 8
"""Bytes that say how long the JSON behind them is."""


def receive(descriptor: int) -> object:
    """What was sent; None when nobody is there any more."""
    header = _read(descriptor, HEADER)
    body = _read(descriptor, int.from_bytes(header, "big")) if header else b""
    return json.loads(body) if body else None


def send(descriptor: int, what: object) -> None:
    """Send what JSON can say. Raises OSError when nobody is there any more."""
    body = json.dumps(what).encode()
    data = memoryview(len(body).to_bytes(HEADER, "big") + body)
    while data:
        data = data[os.write(descriptor, data) :]


def _read(descriptor: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count and (part := os.read(descriptor, count)):
        parts.append(part)
        count -= len(part)
    return b"" if count else b"".join(parts)


def serve(source: int, sink: int) -> None:
    """Take {"pattern", "seconds"}, then lists of lines; answer each line with {"groups": what matched}, or None in it.

    Each line has `seconds` of processor time. Then this process is no more, and what was not answered is too slow.
    """
    asked = receive(source)
    if not isinstance(asked, dict):
        return
    pattern, seconds = re.compile(asked["pattern"]), asked["seconds"]
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    while isinstance(lines := receive(source), list):
        for line in lines:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            match = pattern.search(line)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            send(sink, {"groups": match and match.groupdict()})


if __name__ == "__main__":
    serve(sys.stdin.fileno(), sys.stdout.fileno())
