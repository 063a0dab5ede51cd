"""Answer what is asked of a training that goes on: other settings, and a trace of some steps."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any

from ...language import tr
from ...schema.event_kinds import Plan, SettingChange, Trace
from ...schema.events import Writer
from ...schema.paths import EVENTS, OUTPUTS, SET, SETTING_EVENTS, TAKEN, TRACE
from ...schema.spec import changeable_values, changed_in_epoch, setting_changes, with_changes
from ..context import Request
from ..recipe import outputs_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ..context import Context
    from .metrics_reporter import MetricsReporter

PACKAGE = __name__.rsplit(".", 2)[0]
"""The package of the workers, which has another name in a training process."""


class LiveRequests:
    """Every rank makes the same calls after the same step: rank 0 reads what is asked, and gives it to all."""

    def __init__(self, context: Context, reporter: MetricsReporter, steps_per_epoch: int, samples: int) -> None:
        """`samples`: of an epoch."""
        self._context, self._reporter = context, reporter
        self._per_epoch, self._samples = steps_per_epoch, samples
        self.apply_rate: Callable[[], float] = lambda: math.nan
        """Gives the optimizers their rates at the run's learning rate as it is now, and returns that of the first.

        Raises an error of the recipe's, or `ValueError` where another part of it sets the rate.
        """
        self.rate = math.nan
        """The learning rate of the first optimizer, without the run's schedule."""
        self.trace_ends = 0
        """The step after which a trace is written; 0 if there is none, on any rank."""
        self._traced_from = 0
        self._write_trace: Callable[[Path], object] | None = None

    def restore(self, step: int, *, varies: bool) -> None:
        """Adopt what was changed before the run was resumed after this step. `varies`: the rate has a schedule."""
        run_dir, given = self._context.run_dir, self._context.training.learning_rate
        found = self._reporter.share([[each.step, each.name, each.new] for each in setting_changes(run_dir)])
        self._context.spec = with_changes(self._context.spec, ((name, new) for _, name, new in found))
        is_older = any(at >= step and name == "learning_rate" for at, name, _ in found)  # in the checkpoint
        if is_older or (varies and self._context.training.learning_rate != given):
            self.rate = self.apply_rate()

    def answer(self, requests: int, step: int) -> bool:
        """Answer what was requested by this step, and write a trace after its last one, or before training ends.

        Return whether settings have changed.
        """
        if step >= self.trace_ends or requests & (Request.STOP | Request.PAUSE):
            self.end_trace(step)
        if requests & Request.TRACE and not self.trace_ends:
            self._begin_trace(step)
        return bool(requests & Request.SET) and self._change(step)

    def _change(self, step: int) -> bool:
        """Adopt the settings that are asked for. Return whether any has another value now."""
        context, before = self._context, self._context.spec
        asked = self._reporter.share(context.take_request(SET) if context.rank == 0 else None)
        try:
            context.spec = changed_in_epoch(before, asked, -(-step // self._per_epoch), depends=context.needs_epochs)
            if context.training.learning_rate != before.training.learning_rate:
                self.rate = self.apply_rate()
        except Exception as error:  # noqa: BLE001 (also what a function of the recipe's raises)
            context.spec = before
            if context.rank == 0:
                context.notice(tr("The settings were not changed at step {step}. {why}", step=step, why=error))
        if context.rank == 0:
            if context.spec != before:
                self._record_change(step, changeable_values(before), changeable_values(context.spec))
            context.clear_request(SET + TAKEN)
        return context.spec != before

    def _record_change(self, step: int, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        writer = Writer(self._context.run_dir / EVENTS / SETTING_EVENTS)
        for name in (name for name in new if new[name] != old[name]):
            writer.write(SettingChange(step=step, name=name, old=old[name], new=new[name]))
        writer.close()
        self._context.record(
            Plan(epochs=new["epochs"], steps_per_epoch=self._per_epoch, samples_per_epoch=self._samples)
        )

    def _begin_trace(self, step: int) -> None:
        context = self._context
        asked = self._reporter.share(context.take_request(TRACE) if context.rank == 0 else None)
        steps, ranks = asked.get("steps"), asked.get("ranks")
        if isinstance(steps, int) and isinstance(ranks, list):
            self._traced_from, self.trace_ends = step, step + max(1, steps)
            if context.rank in ranks:
                start = sys.modules[f"{PACKAGE}.{context.spec.framework}"].start_trace
                self._write_trace = self._attempt(start, step)

    def end_trace(self, step: int) -> None:
        """Write the trace of this rank, if it has one."""
        context, write, self._write_trace = self._context, self._write_trace, None
        path = context.run_dir / OUTPUTS / f"trace-rank{context.rank}-step{self._traced_from + 1}.json.gz"
        if write is not None and self._attempt(lambda: (outputs_folder(context), write(path)), step, path):
            traced = step - self._traced_from
            context.record(Trace(rank=context.rank, step=step, steps=traced, file=path.name))
        if self.trace_ends and context.rank == 0:
            context.clear_request(TRACE + TAKEN)
        self.trace_ends = 0

    def _attempt(self, act: Callable[[], Any], step: int, path: Path | None = None) -> Any:  # noqa: ANN401 (what it returns)
        """Return what a profiler's function returns; None if it fails, which is recorded. Training goes on."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001 (whatever a profiler raises, and a full disk)
            if path is not None:
                with contextlib.suppress(OSError):
                    path.unlink()  # before the event, which needs room, too
            rank = self._context.rank
            why = tr("Rank {rank} could not be traced: {why}. Training goes on.", rank=rank, why=error)
            self._context.record(Trace(rank=rank, step=step, steps=0, file="", why=why))
            return None
