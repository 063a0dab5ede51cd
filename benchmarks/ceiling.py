"""How much faster two cores of this machine can be than one: the same training without any exchange of gradients.

Two processes, pinned to a core each, train half of each batch on their own; in turns with them, one process trains
whole batches alone. What two cores share (cache, memory, clock, the host) is in the ratio of their rates; the cost of
data parallel training is not.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray
    from multiprocessing.synchronize import Event

TURN_S = 4.0
ROUNDS = 5
WARM_UP = 2
"""Steps that do not count."""


class Workload(NamedTuple):
    """A model of `wide.py` and its batch."""

    width: int
    layers: int
    size: int
    batch_size: int


class Ceiling(NamedTuple):
    """What was measured."""

    alone_per_s: float
    """Samples per second of one core."""
    ratios: list[float]
    """How much faster two cores were, in each round."""

    @property
    def ratio(self) -> float:
        """The median of the rounds."""
        return median(self.ratios)


class _Trainer:
    """A process that trains on one core while it is let."""

    def __init__(self, core: int, workload: Workload) -> None:
        context = multiprocessing.get_context("spawn")
        self._goes, self._ends, self._made = context.Event(), context.Event(), context.Array("d", 2)
        arguments = (core, workload, self._goes, self._ends, self._made)
        self._process = context.Process(target=_train, args=arguments, daemon=True)
        self._process.start()

    def wait_until_ready(self) -> None:
        """Wait until the first steps are made. Raises `RuntimeError` if the process fails."""
        while self.made == (0, 0):
            if not self._process.is_alive():
                raise RuntimeError("A training that measures the ceiling has failed. Its output is above.")
            time.sleep(0.05)

    @property
    def made(self) -> tuple[float, float]:
        """How many samples it has trained, and when the last step ended, in seconds of a clock of all processes."""
        samples, at = self._made[:]
        return samples, at

    def go(self) -> None:
        """Train from now on."""
        self._goes.set()

    def halt(self) -> None:
        """Train no more after the step under way."""
        self._goes.clear()

    def end(self) -> None:
        """End the process."""
        self._ends.set()
        self._goes.set()
        self._process.join()


def measure_ceiling(workload: Workload, rounds: int = ROUNDS) -> Ceiling:
    """Measure in turns on the first two cores. Takes about 12 s for each round."""
    half = workload._replace(batch_size=workload.batch_size // 2)
    cores = sorted(os.sched_getaffinity(0))[:2]
    alone, first, second = _Trainer(cores[0], workload), _Trainer(cores[0], half), _Trainer(cores[1], half)
    try:
        for each in (alone, first, second):
            each.wait_until_ready()
        rates, ratios = [], []
        for _ in range(rounds):
            before, both, after = _turn(alone), _turn(first, second), _turn(alone)
            rates += [before, after]
            ratios.append(2 * both / (before + after))
    finally:
        for each in (alone, first, second):
            each.end()
    return Ceiling(median(rates), ratios)


def _turn(*trainers: _Trainer) -> float:
    """Let them train at once for a turn, and return their samples per second."""
    for each in trainers:
        each.go()
    time.sleep(TURN_S / 4)  # until clock and caches have settled
    before = [each.made for each in trainers]
    time.sleep(TURN_S)
    after = [each.made for each in trainers]
    for each in trainers:
        each.halt()
    time.sleep(TURN_S / 4)  # the step under way
    return sum(
        (samples - earlier) / (at - since) for (earlier, since), (samples, at) in zip(before, after, strict=True)
    )


def _train(core: int, workload: Workload, goes: Event, ends: Event, shared: SynchronizedArray[float]) -> None:
    os.sched_setaffinity(0, {core})
    import torch

    from benchmarks import wide

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = wide.model(workload.width, workload.layers)
    inputs, targets = wide.train_data(workload.batch_size, workload.size)
    optimizer = wide.optimizer(model.parameters(), 0.01)
    steps = 0
    while not ends.is_set():
        if steps >= WARM_UP:
            shared[:] = [steps * workload.batch_size, time.monotonic()]
            goes.wait()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        steps += 1
