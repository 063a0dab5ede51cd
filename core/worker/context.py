"""What a training loop knows of its run, and the one place through which it reports."""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from ..events import EVENTS, Writer, metrics_line
from ..spec import Placement, RunSpec, Training, read_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPORT_EVERY_S = 0.25
"""Measurements travel this often: a few lines a second, whatever the step rate."""


class Context:
    """The run as one of its workers sees it."""

    def __init__(self, run_dir: str, placement: Placement) -> None:
        self.run_dir = Path(run_dir)
        self.placement = placement
        self.spec: RunSpec = read_spec(self.run_dir)
        self._writer = Writer(self.run_dir / EVENTS / f"worker-{placement.rank}.jsonl")
        self._stop_file = os.path.join(run_dir, "control", "stop")  # noqa: PTH118 (asked for on the hot path)

    @property
    def training(self) -> Training:
        """The run's settings."""
        return self.spec.training

    @property
    def rank(self) -> int:
        """0 for the worker that reports."""
        return self.placement.rank

    @property
    def world_size(self) -> int:
        """How many workers train together."""
        return self.placement.world_size

    def seen(self, **facts: object) -> None:
        """Record what this worker really sees of its devices."""
        self._writer.write("seen", rank=self.rank, **facts)

    def ready(self, *, steps_per_epoch: int, samples_per_epoch: int) -> None:
        """Everything is loaded, the first step is next. Rank 0 announces how much there is to do."""
        if self.rank == 0:
            self._writer.write(
                "plan",
                epochs=self.training.epochs,
                steps_per_epoch=steps_per_epoch,
                samples_per_epoch=samples_per_epoch,
            )
        self._writer.write("ready", rank=self.rank)

    def measured(self, first_step: int, values: Mapping[str, Sequence[float]], *, since: float | None = None) -> None:
        """Record for each metric the values of the steps `first_step`, `first_step + 1`, ...

        `since`: unix time at which the first of them ended; None for now. Raises `RecordError`.
        """
        if not values:
            return
        now = time.time()
        line = metrics_line(since=now if since is None else since, until=now, first_step=first_step, values=values)
        self._writer.write_json(line)

    def done(self) -> None:
        """Training went to its end, or to a stop. A worker that ends without having said so has failed."""
        self._writer.write("done", rank=self.rank)

    def notice(self, text: str) -> None:
        """Tell the user something that does not end the run."""
        self._writer.write("notice", text=text)

    def stop_requested(self) -> bool:
        """Whether the user asked to stop: costs a system call, so ask a few times a second, not per step."""
        return os.path.exists(self._stop_file)  # noqa: PTH110

    def failed(self, error: BaseException) -> None:
        """Record an error that ends this worker, with its traceback."""
        text = "".join(traceback.format_exception(error))
        print(text, file=sys.stderr, end="", flush=True)  # noqa: T201 (into log.txt, where people look for it)
        self._writer.write("error", rank=self.rank, type=type(error).__name__, message=_message(error), traceback=text)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


def _message(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception as another:  # noqa: BLE001 (an exception of the user's may fail even at saying itself)
        return f"(its text cannot be had: {type(another).__name__})"
