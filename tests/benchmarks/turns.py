"""Two trainings that are both alive and let go in turn, so that what is compared was measured seconds apart.

On a machine that is shared, or that changes its clock, the same step takes half as long again at another moment: of two
runs one after the other the later may be the slower by more than what is looked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from core import procfs
from tests.benchmarks.hand import by_hand
from tests.benchmarks.panel import LEFT_OUT, Work, under_the_panel

if TYPE_CHECKING:
    from collections.abc import Callable

SIDES: dict[str, Callable[[Work], object]] = {"panel": under_the_panel, "hand": by_hand}
TURN_S = 3.0
MARGIN_S = 0.3
"""Left out at both ends of a turn: caches are another's at first, and the panel's last steps may be reported later."""
LEAST_EPOCHS = 4
"""A turn in which fewer ended tells nothing."""
MARK = "BENCHMARK_SIDE"
"""A variable of the environment of all processes of a side: it is how they are found."""


class Turn(NamedTuple):
    """When one side was let go, in unix seconds."""

    side: str
    began: float
    ended: float


class Compared(NamedTuple):
    """What turns have shown."""

    panel: list[float]
    """Epochs per second in each pair of turns."""
    hand: list[float]
    steps_per_epoch: int
    panel_loss: float | None
    """Of the last validation."""
    hand_loss: float | None


class Side:
    """A training in processes of its own, which can be halted and let go."""

    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self._mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "tests.benchmarks.turns", name, json.dumps(asdict(work))]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, MARK: self._mark},
            start_new_session=True,  # a Ctrl-C is for the benchmark, which ends both
        )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def halt(self) -> None:
        """Stop all its processes, those that are being started meanwhile, too."""
        halted: set[int] = set()
        while fresh := self._pids() - halted:
            self._send(signal.SIGSTOP, fresh)
            halted |= fresh

    def let_go(self) -> None:
        self._send(signal.SIGCONT, self._pids())

    def told(self) -> dict:
        """What it has measured. Raises `RuntimeError` where it failed; what it said is on the terminal."""
        out, _ = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(f"The side {self.name} failed. What it said is above.")
        return json.loads(out)

    def end(self) -> None:
        """Kill whatever is left of it."""
        self._send(signal.SIGKILL, self._pids())
        self._process.wait()

    def _pids(self) -> set[int]:
        return {pid for pid in procfs.pids() if procfs.variable(procfs.variables(pid), MARK) == self._mark}

    @staticmethod
    def _send(number: signal.Signals, pids: set[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def compare(work: Work, turn_s: float = TURN_S) -> Compared:
    """Train it to the end on both sides. Raises `RuntimeError` where one fails, or where there was no pair of turns."""
    sides = [Side(name, work) for name in SIDES]
    try:
        turns = _alternate(sides, turn_s)
        panel, hand = (side.told() for side in sides)
    finally:
        for side in sides:
            side.end()
    rates = {"panel": [_rate(turn, panel["ends"]) for turn in turns[::2]]}
    rates["hand"] = [_rate(turn, hand["ends"]) for turn in turns[1::2]]
    pairs = [(ours, theirs) for ours, theirs in zip(rates["panel"], rates["hand"], strict=True) if ours and theirs]
    if not pairs:
        raise RuntimeError(f"No pair of turns of {turn_s:g} s had {LEAST_EPOCHS} epochs on both sides. Give more.")
    return Compared(
        panel=[ours for ours, _ in pairs],
        hand=[theirs for _, theirs in pairs],
        steps_per_epoch=panel["steps_per_epoch"],
        panel_loss=panel["val_loss"],
        hand_loss=hand["val_loss"],
    )


def _alternate(sides: list[Side], turn_s: float) -> list[Turn]:
    """Let one go while the other is halted, until one is over: pairs, the panel's turn first in each.

    Which of a pair really came first changes from pair to pair, so that each comes as often after itself as after the
    other, and what drifts with time is shared.
    """
    pairs: list[Turn] = []
    order = [0, 1]
    while True:
        pair: dict[int, Turn] = {}
        for number in order:
            side, other = sides[number], sides[1 - number]
            other.halt()
            side.let_go()
            began = time.time()
            time.sleep(turn_s)
            pair[number] = Turn(side.name, began, time.time())
            if side.is_over:
                other.let_go()
                return pairs
        pairs += [pair[0], pair[1]]
        order.reverse()


def _rate(turn: Turn, ends: list[float]) -> float | None:
    """Epochs per second between the first and the last that ended in the turn; None where they were too few."""
    within = [end for end in ends[LEFT_OUT:] if turn.began + MARGIN_S <= end <= turn.ended - MARGIN_S]
    return (len(within) - 1) / (within[-1] - within[0]) if len(within) > LEAST_EPOCHS else None


def main() -> int:
    """Be one side: SIDE WORK, of which the second is JSON. Prints what was measured."""
    name, told = sys.argv[1:]
    given = json.loads(told)
    measured = SIDES[name](Work(**{**given, "devices": tuple(given["devices"])}))
    shown = ("ends", "val_loss", "steps_per_epoch")
    print(json.dumps({each: getattr(measured, each) for each in shown if hasattr(measured, each)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
