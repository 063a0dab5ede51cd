"""Compare two trainings that are both alive and run in turns, so that both are measured within seconds.

On a machine that is shared, or that changes its clock, the same step takes half as long again at another moment. Of two
runs one after the other, one may be slower by more than the difference that is to be measured.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.hand import by_hand
from benchmarks.panel import LEFT_OUT, Work, under_the_panel
from benchmarks.two_hosts import MARK, by_torchrun, on_two_hosts
from core.system import procfs

if TYPE_CHECKING:
    from collections.abc import Callable

SIDES: dict[str, Callable[[Work], object]] = {
    "panel": under_the_panel, "hand": by_hand, "two hosts": on_two_hosts, "torchrun": by_torchrun,
}
TURN_S = 1.0
"""Much longer than the quarter of a second between the reports of a process, which makes one more report per turn."""
RANKS_TURN_S = 3.0
"""Where several ranks agree on the distance of their reports, they take the halt for slow steps: for the first second
of a turn reports are too many."""
BLOCKS = 10
"""Number of blocks into which the pairs of turns are divided; the scatter of the blocks gives the standard error."""
MIN_PAIRS = 5


class Span(NamedTuple):
    """When a side was continued and halted, in unix seconds."""

    began: float
    ended: float


class Compared(NamedTuple):
    """What turns have shown."""

    panel: float
    """Epochs per second of its own turns."""
    hand: float
    """Of the other side, which is the script by hand if no other was named."""
    ratios: list[float]
    """The first over the second in each block of turns."""
    steps_per_epoch: int
    panel_loss: float | None
    """Of the last validation."""
    hand_loss: float | None

    @property
    def ratio(self) -> float:
        return self.panel / self.hand

    @property
    def error(self) -> float:
        """The standard error of the ratio."""
        return statistics.stdev(self.ratios) / math.sqrt(len(self.ratios))


class Side:
    """A training in processes of its own, which can be halted and continued."""

    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self.spans: list[Span] = []
        self._mark = uuid.uuid4().hex
        self._known: set[int] = set()
        command = [sys.executable, "-m", "benchmarks.turns", name, json.dumps(asdict(work))]
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`; no pipe, which nobody would read)
        self._process = subprocess.Popen(
            command,
            stdout=self._out,
            env={**os.environ, MARK: self._mark},
            start_new_session=True,  # a Ctrl-C is for the benchmark, which ends both
        )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def take_turn(self, seconds: float) -> None:
        """Continue it for this time, then halt it."""
        began = time.time()
        self._send(signal.SIGCONT, self._known)
        time.sleep(seconds)
        self._send(signal.SIGSTOP, self._known)
        self.spans.append(Span(began, time.time()))
        self.halt()

    def halt(self) -> None:
        """Stop all its processes, those that are being started meanwhile, too."""
        halted: set[int] = set()
        while fresh := self._pids() - halted:
            self._send(signal.SIGSTOP, fresh)
            halted |= fresh
        self._known = halted

    def result(self) -> dict:
        """Continue it to its end and return what it measured. Raises `RuntimeError` if it failed."""
        self._send(signal.SIGCONT, self._known)
        if self._process.wait():
            raise RuntimeError(f"The side {self.name} failed. Its output is above.")
        self._out.seek(0)
        return json.loads(self._out.read())

    def kill(self) -> None:
        """Kill whatever is left of it."""
        while left := self._pids() - {self._process.pid}:
            self._send(signal.SIGKILL, left)
        self._process.kill()

    def close(self) -> None:
        """Wait for the end of what was killed."""
        self._process.wait()
        self._out.close()

    def own(self, moment: float) -> float:
        """Return the seconds that it had run until `moment`, a unix time."""
        return sum(max(0.0, min(span.ended, moment) - span.began) for span in self.spans)

    def _pids(self) -> set[int]:
        return {pid for pid in procfs.pids() if procfs.variable(procfs.variables(pid), MARK) == self._mark}

    @staticmethod
    def _send(number: signal.Signals, pids: set[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def compare(
    work: Work, turn_s: float = TURN_S, *, other: Work | None = None, names: tuple[str, str] = ("panel", "hand")
) -> Compared:
    """Train it to the end on the sides of these names, or `other` under the panel, too.

    Raises `RuntimeError` where a side fails, or where the turns were too few.
    """
    sides: list[Side] = []
    try:
        for name, part in ((names[0], work), (names[1], work) if other is None else ("panel", other)):
            sides.append(Side(name, part))
            sides[-1].halt()
        pairs = 0
        while not any(side.is_over for side in sides):
            for side in sides if pairs % 2 else reversed(sides):
                side.take_turn(turn_s)
            pairs += 1
        results = {id(side): side.result() for side in sorted(sides, key=lambda side: not side.is_over)}
    finally:
        for side in sides:
            side.kill()
        for side in sides:
            side.close()
    panel, hand = sides
    ours, theirs = results[id(panel)], results[id(hand)]
    # From where both had done the epochs that are left out, to where both were still at it: whole pairs of turns.
    loaded = max(ours["ends"][LEFT_OUT - 1], theirs["ends"][LEFT_OUT - 1])
    pairs_began = [min(one.began, other.began) for one, other in zip(panel.spans, hand.spans, strict=True)]
    edges = [began for began in pairs_began if began >= loaded]
    if len(edges) < MIN_PAIRS + 1:
        raise RuntimeError(f"There were less than {MIN_PAIRS} pairs of turns. Give more epochs, or shorter turns.")
    blocks = min(BLOCKS, len(edges) - 1)
    edges = [edges[(len(edges) - 1) * number // blocks] for number in range(blocks + 1)]

    def rates(since: float, until: float) -> tuple[float, float]:
        return _rate(panel, ours["ends"], since, until), _rate(hand, theirs["ends"], since, until)

    every = [rates(since, until) for since, until in itertools.pairwise(edges)]
    return Compared(
        *rates(edges[0], edges[-1]),
        ratios=[one / other for one, other in every],
        steps_per_epoch=ours["steps_per_epoch"],
        panel_loss=ours["val_loss"],
        hand_loss=theirs["val_loss"],
    )


def _rate(side: Side, ends: list[float], since: float, until: float) -> float:
    """Epochs per second of the side's own turns, from the first to the last epoch that ended between these times."""
    within = [end for end in ends if since <= end <= until]
    if len(within) < 2:
        raise RuntimeError(f"Less than two epochs of the side {side.name} ended in a block of turns. Give more epochs.")
    return (len(within) - 1) / (side.own(within[-1]) - side.own(within[0]))


def main() -> int:
    """Be one side: SIDE WORK, of which the second is JSON. Prints what was measured."""
    name, argument = sys.argv[1:]
    given = json.loads(argument)
    measured = SIDES[name](Work(**{**given, "devices": tuple(given["devices"])}))
    shown = ("ends", "val_loss", "steps_per_epoch")
    print(json.dumps({each: getattr(measured, each) for each in shown if hasattr(measured, each)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
