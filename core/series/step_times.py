"""Where the time of the steps of a run went, as its workers measured it on some of them."""

from __future__ import annotations

from collections.abc import Sequence

from core.arrays import np
from core.diagnosis.step_time import PARTS, Diagnosis, StepAccount
from core.runs.facts import RunFacts
from core.schema import event_kinds as kinds
from core.schema.events import Event
from core.series.min_max_tree import Floats
from core.series.series import Axis, Series


class StepTimes:
    """The measured steps of all ranks, which measure the same ones."""

    kinds = frozenset({kinds.StepTime.kind, kinds.Checkpoint.kind, kinds.Slowed.kind, kinds.Notice.kind})
    """The kinds of the events to add."""

    def __init__(self) -> None:
        self._account = StepAccount()
        self._diagnosis: Diagnosis | None = None
        """The last one; None if events were added since."""
        self._steps: dict[int, int] = {}
        """The last measured step of each rank."""
        self._new: list[list[float]] = []
        """Rows that are not in the table yet; their seconds are no sums."""
        self._table: Floats | None = None
        """Steps, times, and sums of the seconds so far: of each of `PARTS`, and of the rest. Zeros come first."""

    def add(self, event: Event) -> None:
        """Add an event. The time of a step replaces those of this step and of later ones."""
        self._account.fold([event])
        self._diagnosis = None
        for each in kinds.read_all(kinds.StepTime, [event]):
            if each.step <= self._steps.get(each.rank, 0):
                self._table, self._steps = self.table[: 1 + np.searchsorted(self.table[1:, 0], each.step)], {}
            self._steps[each.rank] = each.step
            parts = [getattr(each, part) or 0.0 for part in PARTS]
            self._new.append([each.step, each.time, *parts, max(each.seconds - sum(parts), 0.0)])

    @property
    def table(self) -> Floats:
        """Return the measured steps of all ranks, shape (1 + n, 9): see `_table`."""
        if self._table is None:  # not before, since the first frame of the window needs no numpy
            self._table = np.zeros((1, 3 + len(PARTS)))
        if self._new:
            rows, last = np.nan_to_num(np.array(self._new, dtype=np.float64)), self._table[-1]
            rows[:, :2] = np.maximum.accumulate(np.maximum(rows[:, :2], last[:2]))
            rows[:, 2:] = np.cumsum(rows[:, 2:], axis=0) + last[2:]
            self._table, self._new = np.concatenate([self._table, rows]), []
        return self._table

    def diagnosis(self, facts: RunFacts, utilisation: Sequence[float | None] = ()) -> Diagnosis:
        """Return why the steps of the run are slow, as far as events were added. The arguments are the account's."""
        self._diagnosis = self._diagnosis or self._account.diagnosis(facts, utilisation)
        return self._diagnosis

    def shares(self, axis: Axis, lo: float, hi: float, columns: int) -> Floats:
        """Return the shares of a step in columns over [lo, hi]: those of `PARTS`, and the rest, shape (7, columns).

        What a rank does not know counts as rest. A column without a measured step has the next one; after the last it
        is NaN.
        """
        steps, along, sums = self.table[1:, 0], self.table[1:, int(axis.column == "time")], self.table[:, 2:]
        at = np.searchsorted(along, axis.locate_all(np.linspace(lo, hi, columns + 1)), side="right")
        starts, following = at[:-1], steps[np.minimum(at[:-1], len(steps) - 1)]
        stops = np.maximum(at[1:], np.searchsorted(steps, following, side="right"))  # a step of all ranks
        spent = (sums[stops] - sums[starts]).T
        shares: Floats = np.divide(spent, spent.sum(axis=0), out=np.full(spent.shape, np.nan), where=spent.any(axis=0))
        return shares

    def waiting(self) -> Series:
        """Return the percentage of a step that waits for data, in at most 512 means; nothing if it is not known."""
        ends = np.flatnonzero(np.diff(self.table[:, 0], append=np.inf))  # the last rank of each step
        rows = self.table[ends[:: len(ends) // 512 + 1]]
        found, spent = Series(), np.diff(rows, axis=0)
        if spent[:, 2].any():
            found.append(rows[1:, 0], rows[1:, 1], 100 * spent[:, 2] / spent[:, 2:].sum(axis=1))
        return found
