"""The losses of PyTorch: stacked on their device, fetched at once, shared among the ranks in one reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from .. import metrics_reporter

if TYPE_CHECKING:
    from torch import Tensor


class Meter(metrics_reporter.MetricsReporter):
    """Gathers the losses of one process."""

    def _fetch(self, losses: list[Tensor]) -> list[float]:
        values: list[float] = torch.stack(losses).float().tolist()
        return values


class SharedMeter(metrics_reporter.RankedMetricsReporter):
    """Gathers the losses of all ranks with an all-reduce."""

    def _settle(self, losses: list[Tensor]) -> None:
        if losses and losses[-1].is_cuda:
            torch.cuda.current_stream(losses[-1].device).synchronize()  # as fetching them would do

    def _reduce(self, losses: list[Tensor], shares: list[float], numbers: list[float]) -> list[float]:
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        # Losses are float32; a number may be a count that float32 would round.
        shared = torch.tensor(numbers, dtype=torch.float64, device=device)
        if losses:
            stacked = torch.stack(losses).double()
            weights = torch.tensor(shares, dtype=torch.float64, device=stacked.device)
            # A rank without an item in a batch has share 0; its loss of one idle item must not count, even if NaN.
            shared = torch.cat([torch.where(weights > 0, stacked * weights, 0.0), shared])
        dist.all_reduce(shared)
        values: list[float] = shared.tolist()
        return values
