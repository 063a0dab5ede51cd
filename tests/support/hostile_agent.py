"""A stand-in for the agent of a host, which answers well but for one ability: python -m tests.support.hostile_agent

ABILITY HOW SEED. It ends after `LIFE_S` seconds, or when its output is closed.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from random import Random
from typing import Any

from core.devices.device import Device, Sample
from core.devices.helper import HelperAnswer, to_document
from core.hosts import protocol
from core.hosts.run_files import FilePart
from core.schema.codec import encode
from core.system.processes import here
from tests.support.hostile_runs import change, hostile_value

LIFE_S = 2
RUN = "20261128-120000-run-aaaa"
SAMPLE = Sample(device_id="cpu:0", time=1.0)
READINGS = HelperAnswer(devices=(Device(id="cpu:0", kind="cpu", label="CPU 0", name="N"),), samples=(SAMPLE,))
HELLO = protocol.Hello(
    protocol=protocol.VERSION, version="1", python="3", user="u", identity=here(), runs="/runs"
).document(time.time())
GOOD: dict[str, Callable[[], Any]] = {
    "clock": lambda: {"time": time.time()},
    "readings": lambda: {**to_document(READINGS), **protocol.pack_uses({})},
    "runs": lambda: {"runs": {RUN: {"id": "1", "live": True, "files": {"spec.json": [10, 1]}}}, "complete": True},
    "read": lambda: {"parts": [encode(FilePart.packed(10, 1, b"0123456789"))]},
}
ABILITIES = ("hello", *GOOD)


Message = dict[str, Any]


def _with(message: Message, kind: str, value: object) -> bytes:
    """Return a line with another value in the field `kind` of a message."""
    return json.dumps({**message, kind: value}).encode() + b"\n"


def _changed(message: Message, kind: str, random: Random) -> bytes:
    """Return a line in which one value somewhere is another one."""
    changed = json.loads(json.dumps({kind: message[kind]} if kind in message else message))
    change(changed, random)
    return json.dumps({**message, **changed}).encode() + b"\n"


def _torn(message: Message, _: str, random: Random) -> Iterator[bytes]:
    yield json.dumps(message).encode()[: random.randint(1, 20)]
    sys.exit()


def _banners(message: Message, kind: str, _: Random) -> Iterator[bytes]:
    """Yield long readings, so slowly that each is taken before the next."""
    line = _with(message, kind, {**GOOD["readings"](), "banner": "x" * 900_000})
    while True:
        time.sleep(0.01)
        yield line


def _nulls(message: Message, kind: str, _: Random) -> Iterator[bytes]:
    """Yield very many samples, then as many that have not changed, which arrive as five bytes each."""
    samples = [{"device_id": str(number), "time": 1.0} for number in range(20_000)]
    yield _with(message, kind, {"time": 1.0, "samples": samples})
    while True:
        time.sleep(0.01)
        yield _with(message, kind, {"time": 1.0, "samples": [None] * len(samples)})


HOW: dict[str, Callable[[Message, str, Random], Iterable[bytes]]] = {
    "type": lambda message, kind, random: [
        _with(message, kind, value) for value in random.sample([5, "x", None, [], [[]], {}, True, 1.5, "\ud800"], 9)
    ],
    "field": lambda *of: [_changed(*of)],
    "missing": lambda message, kind, _: [json.dumps({**message, kind: 0}).replace(kind, "x").encode() + b"\n"],
    "long": lambda message, kind, _: [_with(message, kind, "x" * 3_000_000)],
    # A few bytes each, which are many in memory.
    "large": lambda message, kind, _: repeat(_with(message, kind, [[]] * 200_000), 20),
    "deep": lambda message, kind, _: [_with(message, kind, 0)[:-3] + b"[" * 400_000 + b"\n"],
    "unknown": lambda message, _, random: [
        _with(message, "id", random.choice([999, -1, 0, "1", True, 10**400, None, 1.0]))
    ],
    "again": lambda message, kind, _: repeat(_with(message, kind, message.get(kind)), 3),
    "other": lambda message, kind, _: [
        json.dumps({"id": message.get("id"), "item" if kind == "answer" else "answer": message.get(kind)}).encode()
        + b"\n"
    ],
    "error": lambda message, _, random: [
        json.dumps({"id": message.get("id"), "error": hostile_value(random)}).encode() + b"\n"
    ],
    "noise": lambda _, __, random: [
        random.choice([b"\n" * 100_000, b"\xff\xfe\n", b"\0" * 2_000_000, b"Welcome!\r\n", b"[]\n", b"3\n"])
    ],
    "torn": _torn,
    "fast": lambda message, kind, _: repeat(_with(message, kind, message.get(kind)) * 1000),
    "banners": _banners, "nulls": _nulls,
}
"""What is sent in place of a message, whose value is in the field `kind`."""


def main() -> None:
    """Answer on standard input and output."""
    signal.alarm(LIFE_S)
    ability, how, random = sys.argv[1], sys.argv[2], Random(int(sys.argv[3]))
    out = sys.stdout.buffer

    def write(name: str, message: dict[str, Any], kind: str) -> None:
        right = [json.dumps(message).encode() + b"\n"]
        for line in HOW[how](message, kind, random) if name == ability else right:
            out.write(line)
        out.flush()

    write("hello", HELLO, "hello")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if (name := request.get("do")) in GOOD:
            kind = "item" if name in protocol.STREAMS else "answer"
            write(name, {"id": request["id"], kind: GOOD[name]()}, kind)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
    os._exit(0)  # without another try to write
