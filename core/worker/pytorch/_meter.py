"""Measurements of the steps: kept on the device, fetched a few times a second, never waited for per step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from ..context import REPORT_EVERY_S

if TYPE_CHECKING:
    from torch import Tensor

    from ..context import Context


class Meter:
    """Gathers the losses of one process and reports them every quarter of a second."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.steps = 0
        """Optimizer steps done."""
        self.stopped = False
        """Whether the user asked to stop, as of the last report."""
        self._losses: list[Tensor] = []
        self._since: float | None = None
        self._learning_rate: float | None = None
        self._due = 0.0  # the first step is reported at once, so that the curve begins when training does

    def step(self, loss: Tensor) -> bool:
        """Count one optimizer step with its detached loss; True when training shall stop."""
        self._losses.append(loss)
        self.steps += 1
        if self._since is None:
            self._since = time.time()
        if time.monotonic() >= self._due:
            self.report()
        return self.stopped

    def learning_rate(self, rate: float) -> None:
        """Record the learning rate of the epoch that ends, if it is another than before: few lines for long runs."""
        if rate != self._learning_rate and self._context.rank == 0:
            self._learning_rate = rate
            self._context.measured(self.steps, {"learning_rate": [rate]})

    def validated(self, values: dict[str, list[float]]) -> None:
        """Record the means of a validation; what the steps before it measured comes first."""
        if self._context.rank == 0:
            self._context.measured(self.steps, values)

    def report(self) -> None:
        """Fetch what was gathered (the only wait for the device), record it, look for a stop request."""
        if self._losses:
            self._record(torch.stack(self._losses).float().tolist())
        self.stopped = self._context.stop_requested()
        self._due = time.monotonic() + REPORT_EVERY_S

    def _record(self, losses: list[float]) -> None:
        first = self.steps - len(losses) + 1
        self._context.measured(first, {"loss": losses}, since=self._since)
        self._losses = []
        self._since = None


class SharedMeter(Meter):
    """Gathers the losses of all ranks; only rank 0 decides, and tells the others in the same reduction.

    The steps between two reductions are agreed beforehand: ranks that looked at a clock or a file
    each for itself would enter the collective at different steps and wait for each other for ever.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._shares: list[float] = []
        self._interval = 1
        self._countdown = 1
        self._reported = time.monotonic()

    def step(self, loss: Tensor, share: float = 1.0) -> bool:
        """Count one step with this rank's mean loss, which weighs `share` in the global batch's."""
        self._losses.append(loss)
        self._shares.append(share)
        self.steps += 1
        if self._since is None:
            self._since = time.time()
        self._countdown -= 1
        if self._countdown == 0:
            self.report()
        return self.stopped

    def report(self) -> None:
        """One all-reduce: the global batches' losses, rank 0's stop decision, rank 0's next interval."""
        decision = torch.zeros(2)
        if self._context.rank == 0:
            decision = torch.tensor([float(self._context.stop_requested()), float(self._next_interval())])
        shared = self._reduce(decision)
        *losses, stop, interval = shared.tolist()
        if losses and self._context.rank == 0:
            self._record(losses)
        self._losses, self._shares, self._since = [], [], None
        self.stopped = stop > 0
        self._interval = self._countdown = max(1, round(interval))
        self._reported = time.monotonic()

    def _reduce(self, decision: Tensor) -> Tensor:
        if not self._losses:
            device = "cuda" if dist.get_backend() == "nccl" else "cpu"
            shared = decision.to(device)
        else:
            losses = torch.stack(self._losses).float()
            shares = torch.tensor(self._shares, device=losses.device)
            # A rank without an item in a batch has share 0; its loss of one idle item must not count, even if NaN.
            shared = torch.cat([torch.where(shares > 0, losses * shares, 0.0), decision.to(losses.device)])
        dist.all_reduce(shared)
        return shared

    def _next_interval(self) -> int:
        """Steps until the next report: about a quarter of a second of them, at most twice as many as before."""
        elapsed = time.monotonic() - self._reported
        if not self._losses or elapsed <= 0:
            return self._interval
        wanted = int(len(self._losses) / elapsed * REPORT_EVERY_S)
        return max(1, min(wanted, 2 * self._interval))
