"""What a training loop knows of its run, and the one place through which it reports."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING

from ..schema.events import Writer, metrics_line
from ..schema.paths import CONTROL, EVENTS, worker_events
from ..schema.spec import RunSpec, read_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..schema.rank import RankAssignment
    from ..schema.settings import Training

REPORT_EVERY_S = 0.25
"""Measurements travel this often: a few lines a second, whatever the step rate."""


class Asked(IntFlag):
    """What the user asked for. A request is a file of that name below `control`."""

    STOP = 1
    PAUSE = 2
    SAVE = 4


class Context:
    """The run as one of its workers sees it."""

    def __init__(self, run_dir: str, placement: RankAssignment) -> None:
        self.run_dir = Path(run_dir)
        self.placement = placement
        self.spec: RunSpec = read_spec(self.run_dir)
        self.paused = False
        """Whether training ends here to be resumed."""
        log = self.run_dir / EVENTS / worker_events(placement.rank)
        self.resumed = log.exists() and log.stat().st_size > 0
        """Whether this worker goes on where an earlier one of the run ended."""
        self._writer = Writer(log)
        self._control = os.path.join(run_dir, CONTROL)  # noqa: PTH118 (asked for on the hot path)

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

    def measured(
        self,
        first_step: int,
        values: Mapping[str, Sequence[float]],
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> None:
        """Record for each metric the values of the steps `first_step`, `first_step + 1`, ...

        `since`, `until`: unix times at which the first and the last of them ended; None for now. Raises `RecordError`.
        """
        if not values:
            return
        until = time.time() if until is None else until
        line = metrics_line(since=until if since is None else since, until=until, first_step=first_step, values=values)
        self._writer.write_json(line)

    def done(self) -> None:
        """Training went to its end, or to a stop. A worker that ends without having said so has failed."""
        self._writer.write("done", rank=self.rank, paused=self.paused)

    def parts(self, device: str, names: Sequence[str], where: str) -> None:
        """Record which parameters are on which of the ticked devices, and where the framework says that they are."""
        self._writer.write("parts", rank=self.rank, device=device, parameters=list(names), where=where)

    def saved(self, **facts: object) -> None:
        """Record a checkpoint that is complete."""
        self._writer.write("checkpoint", **facts)

    def rewound(self, step: int) -> None:
        """Training goes on after this step: what was measured of later ones is void."""
        self._writer.write("rewind", step=step)

    def notice(self, text: str) -> None:
        """Tell the user something that does not end the run."""
        self._writer.write("notice", text=text)

    def asked(self) -> Asked:
        """What the user asks for: costs a system call, so ask a few times a second, not per step."""
        try:
            names = os.listdir(self._control)  # noqa: PTH208 (names only)
        except OSError:
            return Asked(0)  # the folder is gone; the supervisor ends the run for it
        found = Asked(0)
        for name in names:
            found |= _REQUESTS.get(name, Asked(0))
        return found

    def end_requested(self) -> bool:
        """Whether the user asked to stop or to pause."""
        return bool(self.asked() & (Asked.STOP | Asked.PAUSE))

    def answered(self, request: Asked) -> None:
        """Take a request back that has been answered, so that it can be made again."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._control, str(request.name).lower()))  # noqa: PTH108, PTH118

    def failed(self, error: BaseException, explained: str | None = None) -> None:
        """Record an error that ends this worker, with its traceback; `explained`: it in words for people.

        Without one where the error is our own word on the training: lines of our files would look like a fault of ours.
        """
        text = None if _says_all(error) else "".join(traceback.format_exception(error))
        said = text or f"{error}\n"
        print(said, file=sys.stderr, end="", flush=True)  # noqa: T201 (into log.txt, where people look for it)
        self._writer.write(
            "error", rank=self.rank, type=type(error).__name__, message=explained or _message(error), traceback=text
        )

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


_REQUESTS = {str(each.name).lower(): each for each in Asked}


def _says_all(error: BaseException) -> bool:
    """Whether it is of a kind of our own, raised for what it says and not because of another error."""
    ours = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    return ours and error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)


def _message(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception as another:  # noqa: BLE001 (an exception of the user's may fail even at saying itself)
        return f"(its text cannot be had: {type(another).__name__})"
