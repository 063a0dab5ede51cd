"""Decide what a training does next: epochs, requests, checkpoints, early stopping. Independent of the framework."""

from __future__ import annotations

import gc
import math
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...language import tr
from ...schema.checkpoint import BEST, TrainingPosition
from ...schema.event_kinds import Rewind
from ..context import REPORT_EVERY_S, Request
from ..recipe import RecipeFunctionError
from .checkpoints import CheckpointStore
from .live import LiveRequests
from .metrics import EpochResults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...schema.checkpoint import StateSaver
    from ...schema.settings import Training
    from ..context import Context
    from .metrics import Values
    from .metrics_reporter import MetricsReporter

DUE = 8
"""A bit beside those of `Request`: a checkpoint is due by the run's own settings."""
SYNC = 16
"""A bit beside those of `Request`: ranks synchronise at the end of this epoch, where rank 0 may have to decide."""
BEST_IS_CHEAP = 32
"""A bit beside those of `Request`: this epoch is saved if it is the best so far, which all ranks know by its loss."""
WARMUP_EPOCHS = 5
"""Epochs of the warm-up that is suggested for a scaled learning rate; fewer for a short training."""
CHECKPOINT_SHARE = 1 / 100
"""Largest share of the training time for checkpoints, where the run leaves their frequency to us."""
BEST_SHARE, BEST_S = 1 / 20, 1.0
"""Largest part of the training time for saving new bests, and what is free of it. New bests are frequent at first and
rare later. A second is no cost to anybody, and lets a training of seconds keep its best model, too."""
FIRST_GUESS_S = 0.05
"""Seconds that the first checkpoint is assumed to take."""


class TrainingController:
    """Guide one training from its first step, or from a checkpoint, to its end. The loop reports each step and epoch.

    Rank 0 decides. With several ranks the reporter's reduction carries its decisions, so that all ranks stop or save
    at the same step.

    Ranks synchronise at the end of an epoch only where a decision may be due. Elsewhere each rank starts the next
    epoch at once, as a hand-written loop does, and the next report records the end of the epoch. One rank alone does
    the same: writing a line at the end of each of many short epochs would take time, too.
    """

    def __init__(
        self,
        context: Context,
        reporter: MetricsReporter,
        saver: StateSaver,
        *,
        steps_per_epoch: int,
        samples_per_epoch: int,
        validates: bool,
    ) -> None:
        self._context, self._reporter = context, reporter
        self._store = CheckpointStore(context, reporter, saver)
        self._per_epoch, self._samples, self._validates = steps_per_epoch, samples_per_epoch, validates
        self._schedule = LearningRateSchedule(context.training, steps_per_epoch * context.training.epochs)
        self.probes = context.spec.probe_steps > 0  # then a validation ends after its first batch
        self.live = LiveRequests(context, reporter, steps_per_epoch, samples_per_epoch)
        self.epoch = 0
        """The current epoch, from 0."""
        self._enough = False
        self._results = EpochResults(reporter.means, patience=context.training.patience, validates=validates)
        self.keeps_numbers = context.on_epoch_end is not None
        """Whether `numbers` are kept. Equal on all ranks, and set before `begin`."""
        self._altered = False
        self._rate = math.nan
        """The learning rate at the end of the last epoch."""
        self._late = False
        """Whether a checkpoint by steps waits for the end of its epoch, to include the validation's value."""
        self._restored = (0, 0)
        """Step and epoch of the checkpoint from which this training continued."""
        self.synchronises = True
        """Whether ranks synchronise at the end of this epoch. Equal on all ranks once the epoch's steps are done."""
        self._sync_requested = False
        """Whether rank 0 has requested to synchronise at the end of this epoch."""
        self._at_epoch_end = False
        """Whether the current report is that of an epoch's end."""
        self._finished = False
        """Whether `finish_validation` was called for this epoch."""
        self._steps_ended = time.monotonic()
        """When the last epoch's steps were done."""
        self._epoch_s = 0.0
        """How long the last epoch took, from the end of the steps of the one before."""
        self._look_at = 0.0
        """When a validation looks for requests again."""
        self._validates_long = validates
        """Whether a request must cut validations short. Assumed until one validation has been timed."""
        self._began = self._saved = time.monotonic()
        self._plan_saving()
        reporter.read_requests = self._read_requests

    # -- what a loop reads -----------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self._reporter.steps

    @property
    def done_in_epoch(self) -> int:
        """Steps done in the current epoch. A resumed loop skips as many."""
        return self._reporter.steps - self.epoch * self._per_epoch

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers of the last epoch, as `EpochResults` has them."""
        return self._results.numbers

    @property
    def rate_varies(self) -> bool:
        """Whether the learning rate changes from step to step."""
        return self._schedule.varies

    def rate_factor(self) -> float:
        """Return the next step's learning rate over the base rate."""
        return self._schedule.factor(self._reporter.steps + 1)

    def begin(self, base_rate: float) -> None:
        """Restore the newest checkpoint, if there is one, and record the plan of the training."""
        self._reporter.first_rate = self.live.rate = base_rate
        self._reporter.means.keeps_all = self.keeps_numbers
        if self._schedule.varies:
            self._reporter.rate_of_step = lambda step: self.live.rate * self._schedule.factor(step)
        if self._context.resumed:
            self._context.enter_phase("checkpoint")
        position = self._store.restore()
        self.live.restore(position.step if position is not None else 0, varies=self._schedule.varies)
        if position is not None:
            self._continue_from(position)
        self._plan_saving()
        if self._context.rank == 0 and (position is not None or self._context.resumed):
            self._context.record(Rewind(step=self._reporter.steps))  # measurements of later steps are void
        if self._context.rank == 0 and position is None:
            if self._context.resumed:
                nothing = tr("The run has no checkpoint to resume from. Training starts from the beginning.")
                self._context.notice(nothing)
            if advice := suggest_warmup(self._context.training, self._per_epoch):
                self._context.notice(advice)
        # Everything loaded so far stays to the end. Frozen, it is skipped by garbage collection: a framework has
        # hundreds of thousands of objects, and the process exits in a tenth of a second instead of one second.
        gc.freeze()
        self._context.record_ready(steps_per_epoch=self._per_epoch, samples_per_epoch=self._samples)
        self._began = self._saved = self._steps_ended = time.monotonic()

    def epochs(self) -> Iterator[int]:
        """Yield the remaining epochs, from the current one."""
        while self.epoch < self._context.training.epochs and not self._enough:
            yield self.epoch

    def run(
        self,
        steps: Callable[[int, int], Iterable[Any]],
        validate: Callable[[], Values | None],
        *,
        rate: Callable[[], float],
        record: Callable[[Any], bool] | None = None,
    ) -> None:
        """Train to the last epoch, or until a stop or a pause is requested: the loop of PyTorch and TensorFlow.

        `steps(epoch, skip)` makes the optimizer steps of an epoch without the first `skip`, each when it is asked for,
        and yields what it returned. `record` takes that, by default a loss, and returns whether training ends there.
        `validate` returns the means of a validation, see `after_epoch`; `rate` the learning rate.
        """
        record = record or self.after_step
        for epoch in self.epochs():
            for found in islice(steps(epoch, self.done_in_epoch), self._context.spec.probe_steps or None):
                if record(found):
                    return
            self.after_epoch_steps(rate())
            if self.after_epoch(validate()):
                return
        self.finish()

    # -- what a loop reports ---------------------------------------------------------------------

    def after_step(self, loss: Any, share: Any = 1.0) -> bool:  # noqa: ANN401 (scalars of the framework's)
        """Count one optimizer step with its loss, left on its device. Return True if the loop must return.

        `share`: the weight of this rank's loss in the global batch's loss.
        """
        requests = self._reporter.step(loss, share)
        if requests or self._reporter.steps in {self._save_at, self.live.trace_ends}:
            return self._handle(requests)
        return False

    def after_epoch_steps(self, rate: float) -> None:
        """Note that the steps of an epoch are done; `rate` is the learning rate."""
        self._finished = False
        self._rate = rate
        self._reporter.times.runs = False  # what follows is no step
        self.synchronises = self._must_synchronise()
        if self._validates:
            self._reporter.before_validation(synchronises=self.synchronises)
        self._reporter.record_learning_rate(rate)
        ended = time.monotonic()
        self._epoch_s, self._steps_ended = ended - self._steps_ended, ended
        self._look_at = self._steps_ended + REPORT_EVERY_S

    def cuts_validation(self) -> bool:
        """Return whether a validation ends here because a stop or a pause is requested. Call it after each batch.

        It ends only where ranks synchronise at its end: elsewhere the other ranks would not know.
        """
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + REPORT_EVERY_S
        return self.synchronises and self._context.end_requested()

    def finish_validation(self, sums: Sequence[float], means: Callable[[Sequence[float]], Values]) -> Values | None:
        """Add up this rank's validation sums over all ranks, and return what `means` makes of them.

        Where ranks synchronise, one reduction carries everything. Where they do not, return None: the next report,
        which is a reduction anyway, records the values.
        """
        self._finished = True
        self._validates_long = self._validates and time.monotonic() - self._steps_ended >= REPORT_EVERY_S
        if not self.synchronises:
            self._defer_epoch_end(sums, means)
            return None
        earlier = self._reporter.requests & ~SYNC
        self._at_epoch_end = True
        values = means(self._reporter.report(sums))
        self._at_epoch_end = False
        self._reporter.requests |= earlier
        return values

    def after_epoch(self, values: Values | None) -> bool:
        """Note that an epoch is done, with the means of its validation. Return True if the loop must return.

        Empty `values` after a validation: a request has cut it short. None: the values are recorded later.
        """
        if values is not None and not self._finished:
            known = values
            values = self.finish_validation((), lambda _: known)
        if values is None:
            self.epoch += 1
            return False
        self._reporter.record_validation(values)
        self._end_epoch(values)
        requests, self._reporter.requests = self._reporter.requests, 0
        self._sync_requested = bool(requests & SYNC)
        if self.live.answer(requests, self.step):
            self._plan_saving()
        if requests & Request.STOP:
            return True
        if requests & Request.PAUSE and not values:
            self._results.reopen_epoch()
            if self._pause():
                return True  # the resumed training ends this epoch, validation included
            self._end_epoch(values)
        self.epoch += 1
        return not self._call_epoch_end() or self._after_whole_epoch(values, requests)

    def _after_whole_epoch(self, values: Values, requests: int) -> bool:
        """Decide what follows an epoch. Return True if the loop must return."""
        # A reduction of its own: what rank 0 decides from the means cannot travel with them.
        self._enough = self._context.training.patience is not None and bool(
            self._reporter.broadcast(self._results.has_stagnated)
        )
        if self._enough and self._context.rank == 0:
            self._context.notice(self._results.early_stop(self.epoch))
        if self.epoch == self._context.training.epochs or self._enough:
            return False  # `finish` writes the last checkpoint
        if requests & Request.PAUSE and values:
            return self._pause()
        late, self._late = self._late, False
        if requests & (Request.SAVE | DUE) or late:
            self._save("asked" if requests & Request.SAVE else self._reason)
        elif requests & BEST_IS_CHEAP and self._results.value is not None and not self._results.since_best:
            self._save(BEST)
        return False

    def _call_epoch_end(self) -> bool:
        """Call the recipe's function on rank 0. If it fails, save the epoch and raise; return False on other ranks."""
        call = self._context.on_epoch_end
        if call is None:
            return True
        failure: RecipeFunctionError | None = None
        if self._context.rank == 0:
            try:
                call(self.numbers)
            except RecipeFunctionError as error:
                failure = error
        if self._reporter.all_ok(ok=failure is None):
            return True
        if self._when.unit != "never":
            self._save("error")
        if failure is not None:
            raise failure
        return False

    def finish(self, *, altered: bool = False) -> None:
        """Record the last measurements and write the last checkpoint. Not called after a stop or a pause.

        `altered`: whether the weights have changed since the last step, so that an earlier checkpoint of that step will
        not do.
        """
        self._altered = altered
        self._reporter.report()
        self.live.end_trace(self.step)
        is_new = (self.step, self.epoch) != self._restored
        if is_new and (self._when.unit != "never" or self._reporter.requests & Request.SAVE):
            self._save("end")

    # -- requests and checkpoints ----------------------------------------------------------------

    def _must_synchronise(self) -> bool:
        """Return whether a decision may be due at this epoch's end, or synchronising costs nothing; equal on all ranks.

        An epoch may be a single step, and a second may hold thousands of them.
        """
        training = self._context.training
        last = self.epoch + 1 == training.epochs
        by_epochs = self._when.unit == "epochs" and self._is_due()
        if last or by_epochs or self._late or training.patience is not None or self.keeps_numbers:
            return True
        if self._sync_requested or self._reporter.requests:
            return True
        return self._validates and self._reporter.reports_often_in(self._per_epoch)

    def _defer_epoch_end(self, sums: Sequence[float], means: Callable[[Sequence[float]], Values]) -> None:
        epoch, step, ended = self.epoch + 1, self._reporter.steps, time.time()

        def record(added_up: Sequence[float]) -> None:
            values = means(added_up)
            self._reporter.record_validation(values, step=step, ended=ended)
            self._end_epoch(values, epoch)

        self._reporter.defer_epoch_end(sums, record)

    def _read_requests(self) -> int:
        """Return rank 0's decision. Called at each report and at each epoch's end where ranks synchronise."""
        requests = int(self._context.requests())
        if self._validates_long:
            requests |= SYNC
        if self._is_due():
            # By minutes it need not wait for the end of its epoch, where it would include the value.
            between = self._when.unit == "minutes" and self._reporter.reports_often_in(self._per_epoch)
            requests |= DUE if self._at_epoch_end or between else SYNC
        if self._best_is_cheap():  # the next epoch synchronises, too, since only then its end can be saved
            requests |= SYNC | (BEST_IS_CHEAP if self._at_epoch_end else 0)
        return requests

    def _handle(self, requests: int) -> bool:
        """Handle requests between two steps. Return True if the loop must return."""
        self._reporter.requests = 0
        self._sync_requested = self._sync_requested or bool(requests & SYNC)
        by_step = self._reporter.steps == self._save_at
        if by_step:
            self._save_at += self._when.every
        if by_step and self.done_in_epoch == self._per_epoch:
            by_step, self._late = False, True
        if self.live.answer(requests, self.step):
            self._plan_saving()
        if requests & Request.STOP:
            return True
        if requests & Request.PAUSE:
            return self._pause()
        if requests & Request.SAVE or requests & DUE or by_step:
            self._save("asked" if requests & Request.SAVE else self._reason)
        return False

    def _plan_saving(self) -> None:
        """Follow the run's settings of checkpoints."""
        self._when = self._context.spec.checkpoints
        self._save_at = (self.step // self._when.every + 1) * self._when.every if self._when.unit == "steps" else 0

    def _end_epoch(self, values: Values, epoch: int | None = None) -> None:
        self._results.end_epoch(values, epoch=epoch or self.epoch + 1, step=self.step, rate=self._rate)
        if self.keeps_numbers:
            self._reporter.begin_epoch()

    def _is_due(self) -> bool:
        """Return whether a checkpoint is due at the end of this epoch."""
        if self._when.unit == "epochs":
            return (self.epoch + 1) % self._when.every == 0
        if self._when.unit == "minutes":
            return time.monotonic() - self._saved >= 60 * self._when.every
        affordable = (time.monotonic() - self._began) * CHECKPOINT_SHARE
        return self._when.unit == "auto" and self._store.spent_s + (self._store.last_s or FIRST_GUESS_S) <= affordable

    def _best_is_cheap(self) -> bool:
        """Return whether the epoch is saved if it is the best so far; only rank 0's answer counts."""
        takes_s = self._store.last_s or FIRST_GUESS_S
        affordable = BEST_S + (time.monotonic() - self._began) * BEST_SHARE
        wanted = self._when.best and self._when.unit != "never"
        return wanted and takes_s <= self._epoch_s and self._store.spent_on_best_s + takes_s <= affordable

    @property
    def _reason(self) -> str:
        return {"epochs": "epoch"}.get(self._when.unit, self._when.unit)

    def _pause(self) -> bool:
        """Save a checkpoint. Return whether it was written, so that training can end here and be resumed."""
        self._context.paused = self._save("pause")
        if not self._context.paused and self._context.rank == 0:
            self._context.clear_request("pause")
        return self._context.paused

    def _save(self, reason: str) -> bool:
        self._reporter.report()  # losses before a checkpoint must not be lost together with those after it
        self._reporter.requests &= Request.STOP  # the others are handled now, or are read again
        position = TrainingPosition(
            step=self._reporter.steps,
            epoch=self.epoch,
            steps_per_epoch=self._per_epoch,
            value=self._results.value if self.done_in_epoch == 0 else None,
            progress={**self._results.to_json(), **({"altered": True} if self._altered else {})},
        )
        written = self._store.write(position, reason)
        if reason != BEST:  # the user's interval goes on
            self._saved = time.monotonic()
        if self._context.rank == 0:
            self._context.clear_request("save")
        return written

    def _continue_from(self, position: TrainingPosition) -> None:
        if position.steps_per_epoch != self._per_epoch:
            raise ValueError(
                tr(
                    "The checkpoint was written with {steps_per_epoch} steps per epoch, but now there are "
                    "{per_epoch}: the data have changed. Restore the data, or start a new run.",
                    steps_per_epoch=position.steps_per_epoch,
                    per_epoch=self._per_epoch,
                )
            )
        self.epoch, self._reporter.steps = position.epoch, position.step
        self._restored = (position.step, position.epoch)
        self._results.restore(position.progress)
        self._enough = self._results.has_stagnated


def size_of(train: Any, val: object) -> dict[str, Any]:  # noqa: ANN401 (batches of a framework's)
    """Return how long an epoch of these data is, for `TrainingController`."""
    return {"steps_per_epoch": train.steps, "samples_per_epoch": train.items, "validates": val is not None}


class LearningRateSchedule:
    """A factor on the base learning rate for each optimizer step, counted from 1."""

    def __init__(self, training: Training, total_steps: int) -> None:
        self._cosine = training.schedule == "cosine"
        self._warmup = training.warmup_steps
        self._total = total_steps
        self._scale = training.rate_factor

    @property
    def varies(self) -> bool:
        """Whether the factor is ever different from 1."""
        return self._cosine or self._warmup > 0 or self._scale != 1

    def factor(self, step: int) -> float:
        """Warm up over `warmup_steps` (Goyal et al. 2017), then return 1 or half a cosine (Loshchilov, Hutter 2017).

        All of it is multiplied by the run's scaling of the rate (`Training.rate_factor`). The factor is above 0 at the
        first and at the last step: a step with rate 0 would change nothing.
        """
        if step <= self._warmup:
            return self._scale * step / self._warmup
        if not self._cosine:
            return self._scale
        left = max(self._total - self._warmup, 1)
        return self._scale * 0.5 * (1 + math.cos(math.pi * (step - self._warmup - 1) / left))


def suggest_warmup(training: Training, steps_per_epoch: int) -> str:
    """Return advice to warm up to a scaled learning rate, or "": Goyal et al. 2017 needed one of five epochs."""
    if training.rate_factor <= 1 or training.warmup_steps:
        return ""
    return tr(
        "The learning rate is {factor:g} times as high as for a batch of {reference}, and there is no warm-up. "
        "If the loss rises at the beginning, let the rate rise slowly: --warmup-steps {steps}, for example.",
        factor=training.rate_factor,
        reference=training.reference_batch,
        steps=steps_per_epoch * min(WARMUP_EPOCHS, max(1, training.epochs // 10)),
    )
