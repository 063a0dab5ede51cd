"""Where a training stands and what is due: epochs, requests, checkpoints, early stopping; of no framework."""

from __future__ import annotations

import gc
import math
import time
from typing import TYPE_CHECKING, Any, TypedDict

from ..schema.checkpoint import TrainingPosition
from .checkpoint_store import CheckpointStore
from .context import REPORT_EVERY_S, Asked
from .schedule import LearningRateSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..schema.checkpoint import StateSaver
    from .context import Context
    from .metrics_reporter import MetricsReporter

    Values = Mapping[str, Sequence[float]]
    """The means of a validation by their names, a list of one each; none where it was cut short, or there is none."""

DUE = 8
"""Beside the bits of `Asked`: a checkpoint is due by the run's own settings."""
MEET = 16
"""Ranks meet at the end of the epoch under way: rank 0 may have a decision to tell there."""
SHARE = 1 / 100
"""Of the training time, what checkpoints may take where it is left to us how often they are written."""
FIRST_GUESS_S = 0.05  # how long one takes, before there was any


class TrainingSize(TypedDict):
    """How much there is in an epoch."""

    steps_per_epoch: int
    samples_per_epoch: int
    validates: bool
    """Whether a validation follows the steps."""


class TrainingController:
    """One training's way from its first step, or a checkpoint, to its end. A loop tells it each step and each epoch.

    Rank 0 decides; with several ranks the meter's reduction carries its decisions, so that all ranks
    stop or save at the same step.

    At the end of an epoch ranks meet only where something may be decided there. Else each goes on with the next
    epoch at once, as a hand-written loop does, and the end is told with the next report, at which they meet anyway.
    So does one rank alone: to write a line at the end of each of many short epochs would take its time, too.
    """

    def __init__(
        self,
        context: Context,
        meter: MetricsReporter,
        saver: StateSaver,
        *,
        steps_per_epoch: int,
        samples_per_epoch: int,
        validates: bool,
    ) -> None:
        self._context, self._meter = context, meter
        self._shelf = CheckpointStore(context, meter, saver)
        self._per_epoch, self._samples, self._validates = steps_per_epoch, samples_per_epoch, validates
        self._schedule = LearningRateSchedule(context.training, steps_per_epoch * context.training.epochs)
        self._when = context.spec.checkpoints
        self.epoch = 0
        """The epoch under way, from 0."""
        self._enough = False
        self._best, self._since_best = math.inf, 0
        self._value: float | None = None
        """The monitored loss of the last epoch that was told."""
        self._late = False
        """Whether a checkpoint by steps waits for the end of its epoch, to have its value."""
        self._taken_up = (0, 0)
        """Step and epoch of the checkpoint that this leg began with."""
        self.meets = True
        """Whether ranks meet at the end of the epoch under way; the same on all of them once its steps are done."""
        self._shall_meet = False
        """Whether rank 0 has asked for that."""
        self._ending = False
        """Whether the report that is being made is that of an epoch's end."""
        self._concluded = False
        """Whether the end of the epoch under way was met, or put off."""
        self._trained = time.monotonic()
        """When its steps were done."""
        self._validates_long = validates
        """Whether validations last so long that a request has to cut them short; taken to be so until one was timed."""
        self._began = self._saved = time.monotonic()
        self._save_at = self._when.every if self._when.unit == "steps" else 0
        meter.look = self._look

    # -- what a loop asks ------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self._meter.steps

    @property
    def done_in_epoch(self) -> int:
        """Those of the epoch under way: a resumed loop leaves out as many."""
        return self._meter.steps - self.epoch * self._per_epoch

    @property
    def varies(self) -> bool:
        """Whether the learning rate changes from step to step."""
        return self._schedule.varies

    def rate_factor(self) -> float:
        """The next step's learning rate over the base rate."""
        return self._schedule.factor(self._meter.steps + 1)

    def begin(self, base_rate: float) -> None:
        """Go to the newest checkpoint, if there is one; announce what there is to do."""
        if self._schedule.varies:
            self._meter.rate = lambda step: base_rate * self._schedule.factor(step)
        stand = self._shelf.take_up()
        if stand is not None:
            self._go_to(stand)
        if self._context.rank == 0 and (stand is not None or self._context.resumed):
            self._context.rewound(self._meter.steps)
        if self._context.rank == 0 and stand is None and self._context.resumed:
            self._context.notice("There was no checkpoint to go on from: training begins anew.")
        # All that is loaded by now stays to the end: collecting garbage need not look through a framework's
        # hundreds of thousands of objects, and the process ends in a tenth of a second instead of one.
        gc.freeze()
        self._context.ready(steps_per_epoch=self._per_epoch, samples_per_epoch=self._samples)
        self._began = self._saved = time.monotonic()

    def epochs(self) -> Iterator[int]:
        """The epochs that are left, from the one under way."""
        while self.epoch < self._context.training.epochs and not self._enough:
            yield self.epoch

    # -- what a loop tells -----------------------------------------------------------------------

    def stepped(self, loss: Any, share: float = 1.0) -> bool:  # noqa: ANN401 (a scalar of the framework's)
        """Count one optimizer step with its loss, left on its device; True when the loop shall return.

        `share`: what this rank's loss weighs in the global batch's, where ranks have parts of it.
        """
        asked = self._meter.step(loss, share)
        if asked or self._meter.steps == self._save_at:
            return self._attend(asked)
        return False

    def epoch_trained(self, rate: float) -> None:
        """The steps of an epoch are done."""
        self._concluded = False
        self.meets = self._has_to_meet()
        if self._validates:
            self._meter.steps_end(meets=self.meets)
        self._meter.learning_rate(rate)
        self._trained = time.monotonic()

    def conclude(self, sums: Sequence[float], means: Callable[[Sequence[float]], Values]) -> Values | None:
        """The end of an epoch, with this rank's sums of its validation; `means` makes values of those over all ranks.

        Returns these values where ranks meet: one reduction for all that they have to tell each other.
        None where they do not: the next report, which they make together anyway, brings the values.
        """
        self._concluded = True
        self._validates_long = self._validates and time.monotonic() - self._trained >= REPORT_EVERY_S
        if not self.meets:
            self._put_off(sums, means)
            return None
        earlier = self._meter.asked & ~MEET
        self._ending = True
        values = means(self._meter.report(sums))
        self._ending = False
        self._meter.asked |= earlier
        return values

    def validated(self, values: Values | None) -> bool:
        """An epoch is done, with these means of its validation, if there was one; True when the loop shall return.

        No means of a validation that there was: a request has cut it short. None: they are told later.
        """
        if values is not None and not self._concluded:
            known = values
            values = self.conclude((), lambda _: known)
        if values is None:
            self.epoch += 1
            return False
        self._meter.validated(values)
        before = self._best, self._since_best, self._meter.mean.sum, self._meter.mean.count
        self._compare(values)
        asked, self._meter.asked = self._meter.asked, 0
        self._shall_meet = bool(asked & MEET)
        if asked & Asked.STOP:
            return True
        if asked & Asked.PAUSE and not values:
            self._best, self._since_best = before[:2]
            self._meter.mean.restore(*before[2:])
            if self._pause():
                return True  # the end of the epoch, its validation too, comes when training goes on
        self.epoch += 1
        # Its own reduction: what rank 0 decides by the means cannot come with them.
        self._enough = self._context.training.patience is not None and bool(self._meter.agree(self._is_enough()))
        if self._enough:
            self._tell_enough()
        if self.epoch == self._context.training.epochs or self._enough:
            return False  # `end` writes the last checkpoint
        if asked & Asked.PAUSE and values:
            return self._pause()
        late, self._late = self._late, False
        if asked & (Asked.SAVE | DUE) or late:
            self._save("asked" if asked & Asked.SAVE else self._reason)
        return False

    def end(self) -> None:
        """All epochs are done: the last measurements and the last checkpoint. Not after a stop or a pause."""
        self._meter.report()
        is_new = (self.step, self.epoch) != self._taken_up
        if is_new and (self._when.unit != "never" or self._meter.asked & Asked.SAVE):
            self._save("end")

    # -- requests and checkpoints ----------------------------------------------------------------

    def _has_to_meet(self) -> bool:
        """Whether something may be decided at this end of an epoch, or meeting there costs nothing: alike on all ranks.

        Epochs may be of one step, thousands in a second.
        """
        training = self._context.training
        last = self.epoch + 1 == training.epochs
        by_epochs = self._when.unit == "epochs" and self._is_due()
        if last or by_epochs or self._late or training.patience is not None:
            return True
        if self._shall_meet or self._meter.asked:
            return True
        return self._validates and self._meter.meets_often_in(self._per_epoch)

    def _put_off(self, sums: Sequence[float], means: Callable[[Sequence[float]], Values]) -> None:
        step, ended = self._meter.steps, time.time()

        def tell(added_up: Sequence[float]) -> None:
            values = means(added_up)
            self._meter.validated(values, step=step, ended=ended)
            self._compare(values)

        self._meter.put_off(sums, tell)

    def _look(self) -> int:
        """Rank 0's decision, at each report and at each end of an epoch at which ranks meet."""
        asked = int(self._context.asked())
        if self._validates_long:
            asked |= MEET
        if self._is_due():
            asked |= DUE if self._ending or self._may_save_between() else MEET
        return asked

    def _may_save_between(self) -> bool:
        """Whether a checkpoint that is due need not wait for the end of its epoch, where it has its value."""
        return self._when.unit == "minutes" and self._meter.meets_often_in(self._per_epoch)

    def _attend(self, asked: int) -> bool:
        self._meter.asked = 0
        self._shall_meet = self._shall_meet or bool(asked & MEET)
        by_step = self._meter.steps == self._save_at
        if by_step:
            self._save_at += self._when.every
        if by_step and self.done_in_epoch == self._per_epoch:
            by_step, self._late = False, True
        if asked & Asked.STOP:
            return True
        if asked & Asked.PAUSE:
            return self._pause()
        if asked & Asked.SAVE or asked & DUE or by_step:
            self._save("asked" if asked & Asked.SAVE else self._reason)
        return False

    def _compare(self, values: Values) -> None:
        """The epoch that was told just now with the best so far."""
        mean = self._meter.mean.take()
        self._value = values["val_loss"][0] if "val_loss" in values else mean
        if self._validates and not values:
            self._value = None  # cut short: there is nothing to compare
        elif self._value is not None and self._value < self._best:
            self._best, self._since_best = self._value, 0
        else:
            self._since_best += 1

    def _is_due(self) -> bool:
        """Whether a checkpoint is due at this end of an epoch."""
        if self._when.unit == "epochs":
            return (self.epoch + 1) % self._when.every == 0
        if self._when.unit == "minutes":
            return time.monotonic() - self._saved >= 60 * self._when.every
        affordable = (time.monotonic() - self._began) * SHARE
        return self._when.unit == "auto" and self._shelf.spent_s + (self._shelf.last_s or FIRST_GUESS_S) <= affordable

    def _is_enough(self) -> bool:
        patience = self._context.training.patience
        return patience is not None and self._since_best >= patience

    def _tell_enough(self) -> None:
        if self._context.rank == 0:
            self._context.notice(
                f"Early stopping after epoch {self.epoch}: none of the last {self._since_best} was better than "
                f"{self._best:.6g}."
                if math.isfinite(self._best)
                else f"Early stopping after epoch {self.epoch}: none so far had a loss that is a number."
            )

    @property
    def _reason(self) -> str:
        return {"epochs": "epoch"}.get(self._when.unit, self._when.unit)

    def _pause(self) -> bool:
        """Whether all is saved, so that training can end here to be resumed."""
        self._context.paused = self._save("pause")
        if not self._context.paused and self._context.rank == 0:
            self._context.answered(Asked.PAUSE)
        return self._context.paused

    def _save(self, reason: str) -> bool:
        self._meter.report()  # what was measured before a checkpoint must not be lost with what comes after it
        self._meter.asked &= ~(Asked.PAUSE | Asked.SAVE | DUE)  # this is the answer
        written = self._shelf.put(self._stand(), reason)
        self._saved = time.monotonic()
        if self._context.rank == 0:
            self._context.answered(Asked.SAVE)
        return written

    def _stand(self) -> TrainingPosition:
        mean = self._meter.mean
        return TrainingPosition(
            step=self._meter.steps,
            epoch=self.epoch,
            steps_per_epoch=self._per_epoch,
            value=self._value if self.done_in_epoch == 0 and _is_finite(self._value) else None,
            progress={
                "best": self._best if math.isfinite(self._best) else None, "since_best": self._since_best,
                "loss_sum": mean.sum if math.isfinite(mean.sum) else None, "loss_count": mean.count,
            },
        )  # fmt: skip

    def _go_to(self, stand: TrainingPosition) -> None:
        if stand.steps_per_epoch != self._per_epoch:
            raise ValueError(
                f"The checkpoint was written with {stand.steps_per_epoch} steps per epoch, and now there are "
                f"{self._per_epoch}: the data have changed. Bring them back, or start a new run."
            )
        self.epoch, self._meter.steps = stand.epoch, stand.step
        self._taken_up = (stand.step, stand.epoch)
        kept = stand.progress
        self._best = math.inf if kept["best"] is None else kept["best"]
        self._since_best = kept["since_best"]
        self._enough = self._is_enough()
        self._meter.mean.restore(math.nan if kept["loss_sum"] is None else kept["loss_sum"], kept["loss_count"])
        if self._when.unit == "steps":
            self._save_at = (stand.step // self._when.every + 1) * self._when.every


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
