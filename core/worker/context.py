"""What a training loop knows about its run, and the one place through which it records events."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import re
import resource
import sys
import time
import traceback
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..language import join_sentences, tr, tr_plural
from ..schema.event_kinds import LinkSpeed, MemoryPeak, ModelPart, Notice, Phase, Plan, Ready, Seen, WorkerError
from ..schema.events import Writer, metrics_line
from ..schema.files import read_json
from ..schema.paths import CONTROL, EVENTS, SET, TAKEN, TRACE, worker_events
from ..schema.spec import RunSpec, read_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..schema.event_kinds import Record
    from ..schema.settings import Training
    from ..schema.spec import RankAssignment

REPORT_EVERY_S = 0.25
"""Seconds between two reports: a few lines a second, whatever the step rate."""
LINK_BYTES = 1024 * 1024
"""Size of the tensor whose sum over all ranks checks their link."""
LINK_TRIALS = 3


class Request(IntFlag):
    """A request of the user: a file in the folder `control`, by its name in `_REQUESTS`."""

    STOP = 1
    PAUSE = 2
    SAVE = 4
    SET = 64
    TRACE = 128


class Context:
    """The run as one of its workers sees it."""

    def __init__(self, run_dir: str, assignment: RankAssignment) -> None:
        self.run_dir = Path(run_dir)
        self.assignment = assignment
        self.spec: RunSpec = read_spec(self.run_dir, changed=False)
        """As the run was started; from `TrainingController.begin` on, with the settings that were changed since."""
        self.paused = False
        """Whether training ends here to be resumed later."""
        self.record_last: Callable[[], None] = lambda: None
        """Records what was measured since the last report, when an error has ended the training."""
        self.located: Callable[[str], str] = lambda message: message
        """Adds to a message the line of the function of the recipe that it names."""
        self.needs_epochs = ""
        """The recipe's function that depends on the number of epochs; empty if it has none."""
        self.computes_loss = ""
        """The sentence that names the recipe's function of the loss; empty if it has none."""
        self.on_epoch_end: Callable[[Mapping[str, float]], object] | None = None
        """Calls the recipe's function of this name on rank 0; None on all ranks if the recipe has none."""
        log = self.run_dir / EVENTS / worker_events(assignment.rank)
        self.resumed = assignment.resumes or (log.exists() and log.stat().st_size > 0)
        """Whether this worker continues the work of an earlier worker of the run."""
        self._writer = Writer(log)
        self._phase = ""
        self._control = os.path.join(run_dir, CONTROL)  # noqa: PTH118 (read on the hot path)

    @property
    def training(self) -> Training:
        """The run's settings."""
        return self.spec.training

    @property
    def rank(self) -> int:
        """This worker's rank. Rank 0 reports for all."""
        return self.assignment.rank

    @property
    def is_first_on_host(self) -> bool:
        """Whether this worker acts for all on its machine, such as to make folders. On one machine that is rank 0."""
        return self.rank == 0 or (self.assignment.host > 0 and self.assignment.local_rank == 0)

    @property
    def has_no_network(self) -> bool:
        """Whether another process fetches data for this worker, which runs in a network of its own."""
        return self.assignment.gate is not None and self.assignment.role != "fetch"

    @property
    def world_size(self) -> int:
        """How many workers train together."""
        return self.assignment.world_size

    def record(self, event: Record) -> None:
        """Record an event. Raises `RecordError`, as all that record something."""
        self._writer.write(event)

    def check_seen(self, gpus: int, threads: int, ticked: Sequence[str], advice: Callable[[], str]) -> None:
        """Record the GPUs and threads that this process really sees. `advice`: returns what to do.

        Raises `RuntimeError` unless it sees exactly the ticked devices.
        """
        self.record(Seen(rank=self.rank, gpus=gpus, threads=threads))
        if self.assignment.kind == "cpu" and gpus:
            raise RuntimeError(
                tr("This worker sees a GPU ({gpus}), but only CPU devices were chosen. Please report this.", gpus=gpus)
            )
        if self.assignment.kind != "cpu" and gpus != len(ticked):
            raise RuntimeError(
                tr(
                    "This worker sees {seen}, but {chosen} ({devices}). {advice}",
                    seen=tr_plural("{count} CUDA device", "{count} CUDA devices", gpus),
                    chosen=tr_plural("{count} was chosen", "{count} were chosen", len(ticked)),
                    devices=", ".join(ticked),
                    advice=advice(),
                )
            )

    def check_link(self, backend: str, ones: Callable[[], Any], is_summed: Callable[[Any], bool]) -> None:
        """Sum a tensor of ones over all ranks, and record the shortest time as a `LinkSpeed`.

        `backend`: with which the ranks exchange data. `ones`: makes the tensor, shape (LINK_BYTES / 4,), float32.
        `is_summed`: sums it, and returns whether each number is the world size. Raises `RuntimeError` with a sentence
        if the sum is wrong.
        """
        seconds, is_right = [], True
        for _ in range(LINK_TRIALS):
            tensor = ones()
            began = time.perf_counter()
            is_right = is_summed(tensor) and is_right
            seconds.append(time.perf_counter() - began)
        if not is_right:
            raise RuntimeError(
                tr("A test of the network between the machines gave wrong sums. Check it, then start the run again.")
            )
        if self.rank == 0:
            speed = LINK_BYTES / max(min(seconds), 1e-9)
            self.record(LinkSpeed(size_bytes=LINK_BYTES, seconds=min(seconds), bytes_per_s=speed, backend=backend))

    def enter_phase(self, name: str, *, python: str = "", framework: str = "") -> None:
        """Record what this worker begins to do before its first step, unless it does so already.

        `name`: `framework`, `download`, `recipe`, `data`, `model`, `join`, `checkpoint`, `compile` or `step`. A phase
        lasts until the next one begins, and the last one until the first measurement.
        """
        if name != self._phase:
            self._phase = name
            self.record(Phase(rank=self.rank, name=name, python=python, framework=framework))

    def record_ready(self, *, steps_per_epoch: int, samples_per_epoch: int) -> None:
        """Record that the first step is next. Rank 0 also records the plan of the training."""
        if self.rank == 0:
            epochs = self.training.epochs
            self.record(Plan(epochs=epochs, steps_per_epoch=steps_per_epoch, samples_per_epoch=samples_per_epoch))
        self.record(Ready(rank=self.rank))
        self.enter_phase("compile" if self.training.compile else "step")

    def record_metrics(
        self,
        first_step: int,
        values: Mapping[str, Sequence[float]],
        *,
        since: float | None = None,
        until: float | None = None,
        every: int = 1,
    ) -> None:
        """Record for each metric its values at the steps `first_step`, `first_step + every`, ...

        `since`, `until`: unix times at which the first and the last of these steps ended; None for now. Raises
        `RecordError`.
        """
        if not values:
            return
        until = time.time() if until is None else until
        since = until if since is None else since
        self._writer.write_json(
            metrics_line(since=since, until=until, first_step=first_step, values=values, every=every)
        )

    def record_parts(
        self, device: str, names: Sequence[str], where: str, *, size_bytes: int, reads_from: str | None = None
    ) -> None:
        """Record which parameters are on a ticked device, and where the framework says that they are.

        `size_bytes`: of what the device holds of them. `reads_from`: the device whose parameters it reads at each step,
        where it has none by intention.
        """
        self.record(
            ModelPart(
                rank=self.rank, device=device, parameters=tuple(names), where=where, size_bytes=size_bytes,
                reads_from=reads_from,
            )
        )

    def notice_empty_device(self, device: str, remedy: str | None = None) -> None:
        """Tell that a ticked device holds nothing of a divided model. `remedy`: what to do; default: for placement."""
        what = tr(
            "No parameter of the model is on {device}, although it was ticked: it only holds memory.", device=device
        )
        self.notice(join_sentences([what, remedy or tr("Check the devices in placed_model(), or tick fewer devices.")]))

    def notice(self, text: str) -> None:
        """Record a message to the user that does not end the run."""
        self.record(Notice(text=text))

    def notice_large_batch(self, items: int) -> None:
        """Record a notice if the batch size is larger than the training data, which have so many items."""
        size = self.training.batch_size
        if size > items and not self.rank:
            self.notice(
                tr(
                    "The batch size is {size}, but there are only {items} items: each step uses all of them.",
                    size=size,
                    items=items,
                )
            )

    def requests(self) -> Request:
        """Return the pending requests. This costs a system call: call it a few times a second, not per step."""
        try:
            names = os.listdir(self._control)  # noqa: PTH208 (names only)
        except OSError:
            return Request(0)  # the folder is gone; the supervisor ends the run for it
        return functools.reduce(operator.or_, (_REQUESTS.get(name, Request(0)) for name in names), Request(0))

    def take_request(self, name: str) -> dict[str, Any]:
        """Return what a request with a content asks for; an empty object if that cannot be read."""
        path = os.path.join(self._control, name)  # noqa: PTH118
        with contextlib.suppress(OSError, ValueError):
            os.replace(path, path + TAKEN)  # noqa: PTH105 (a later request is a file of its own)
            asked = read_json(path + TAKEN)
            return asked if isinstance(asked, dict) else {}
        return {}

    def end_requested(self) -> bool:
        return bool(self.requests() & (Request.STOP | Request.PAUSE))

    def clear_request(self, name: str) -> None:
        """Remove a request that has been handled, so that it can be made again."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._control, name))  # noqa: PTH108, PTH118

    def record_error(self, error: BaseException, explanation: str | None = None) -> None:
        """Record an error that ends this worker, with its traceback. `explanation` replaces the error's own text.

        An error that we raise on purpose is recorded without a traceback: lines of our files would look like our fault.
        """
        text = None if _is_self_explanatory(error) else "".join(traceback.format_exception(error))
        print(text or f"{error}\n", file=sys.stderr, end="", flush=True)  # noqa: T201 (into log.txt, for the user)
        message = explanation or _message(error)
        self.record(WorkerError(rank=self.rank, type_name=type(error).__name__, message=message, traceback=text))

    def record_peaks(self) -> None:
        """Record the most memory that this worker has used on each of its devices, as far as it can be read."""
        given = self.assignment
        package: Any = sys.modules.get(f"{__package__}.{self.spec.framework}")
        for device in given.own or given.devices[:1]:  # one that only coordinates uses memory of the host, too
            with contextlib.suppress(OSError, RuntimeError, LookupError, ValueError, AttributeError):
                peak, left = (_memory_of_process if given.kind == "cpu" else package.memory_of)(given, device)
                self.record(MemoryPeak(rank=self.rank, device=device, peak_bytes=peak, left_bytes=left))

    def close(self) -> None:
        self._writer.close()


_REQUESTS = {
    "stop": Request.STOP, "pause": Request.PAUSE, "save": Request.SAVE, SET: Request.SET, TRACE: Request.TRACE
}


def _memory_of_process(given: RankAssignment, _: str) -> tuple[int, int | None]:
    """Return a device's part of the peak of this process, and what `ulimit -d`, which counts other pages, leaves."""
    text = Path("/proc/self/status").read_text()
    sizes = {name: 1024 * int(kb) for name, kb in re.findall(r"(\w+):\s*(\d+) kB", text)}
    peak, limit = sizes["VmHWM"], resource.getrlimit(resource.RLIMIT_DATA)[0]
    left = None if limit == resource.RLIM_INFINITY else limit - (peak + sizes["VmData"] - sizes["VmRSS"])
    return peak // (len(given.own) or 1), left


def _is_self_explanatory(error: BaseException) -> bool:
    """Return whether the error is of a class of ours and was not raised because of another error."""
    ours = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    return ours and error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)


def _message(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception as another:  # noqa: BLE001 (a user's exception may fail even in __str__)
        return tr("(its message cannot be shown: {kind})", kind=type(another).__name__)
