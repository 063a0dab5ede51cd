"""The scaling tables below the window's folder of runs: what was asked for, what became of it, and the numbers."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.runs.facts.states import RunState
from core.scaling.record import read_record
from core.scaling.scaling_table import read_table
from core.schema.paths import SCALING_SUFFIX
from gui.services.jobs import Jobs
from gui.viewmodels.comparison.scaling_rows import ShownTable

if TYPE_CHECKING:
    from pathlib import Path

    from core.scaling.record import ScalingRecord
    from core.scaling.scaling_table import ScalingTable

    from .run_list import RunListService

log = logging.getLogger(__name__)

PERIOD_S = 1.0
States = tuple[RunState | None, ...]


class ScalingTables(QObject):
    """Polled once a second. The numbers of a table are read on a thread, again whenever a run of it has ended."""

    changed = Signal()
    """There are other tables, or something has become of one."""

    def __init__(self, run_list: RunListService) -> None:
        super().__init__()
        self._run_list = run_list
        self.tables: tuple[ShownTable, ...] = ()
        """In the order of their names."""
        self._records: dict[str, tuple[int, ScalingRecord | None]] = {}
        """By the name of the file, the time of its last change, and what is in it; None for what is no table."""
        self._numbers: dict[Path, tuple[States, ScalingTable | None]] = {}
        """By the path of the record, the states of the runs when the numbers were read, and the numbers."""
        self._reading = Jobs(self, "scaling")
        self._polled_at = float("-inf")
        self._states: tuple[object, dict[str, RunState]] = None, {}
        """A list of summaries, and the states of its runs by name."""

    def poll(self, *, now: bool = False) -> None:
        """Bring the tables up to date if a second has passed, or `now` in any case."""
        if not now and time.monotonic() - self._polled_at < PERIOD_S:
            return
        self._polled_at = time.monotonic()
        if not self._run_list.table_files and not self.tables:
            return
        self._read_records()
        tables = self._shown()
        if tables != self.tables:
            self.tables = tables
            self.changed.emit()
        self._read_numbers()

    def table(self, path: Path) -> ShownTable | None:
        """Return the table of this record; None if there is none."""
        return next((each for each in self.tables if each.record.path == path), None)

    def _read_records(self) -> None:
        found = {}
        for name in self._run_list.table_files:
            try:
                changed = os.stat(self._run_list.root / name).st_mtime_ns  # noqa: PTH116 (each second)
            except OSError:
                continue
            known = self._records.get(name)
            if known is None or known[0] != changed:
                known = changed, None
                try:
                    known = changed, read_record(self._run_list.root, name.removesuffix(SCALING_SUFFIX))
                except ValueError as error:  # its runs are listed like any others
                    log.warning("%s", error)
            found[name] = known
        self._records = found

    def _shown(self) -> tuple[ShownTable, ...]:
        summaries = self._run_list.summaries
        if self._states[0] is not summaries:  # asked each second, and there may be thousands
            self._states = summaries, {each.dir.name: each.state for each in summaries}
        states, shown = self._states[1], []
        for _, record in self._records.values():
            if record is None:
                continue
            last = {(each.devices, each.repeat): each.run for each in record.runs}
            shown.append(
                ShownTable(
                    record=record,
                    is_measured=record.is_measured,
                    states=tuple(
                        states.get(last.get((len(spec.devices), repeat), "")) for spec, repeat in record.cells
                    ),
                    table=self._numbers.get(record.path, (None, None))[1],
                )
            )
        return tuple(sorted(shown, key=lambda each: each.record.name))

    def _read_numbers(self) -> None:
        """Read the numbers of the next table of which other runs have finished since."""
        for each in self.tables:
            finished = tuple(state if state is RunState.FINISHED else None for state in each.states)
            if any(finished) and self._numbers.get(each.record.path, (None,))[0] != finished:
                self._read(each.record, finished)
                return

    def _read(self, record: ScalingRecord, states: States) -> None:
        self._reading.start(
            lambda: read_table(record),
            lambda table: self._take(record.path, states, table),
            lambda _: self._take(record.path, states, None),
        )

    def _take(self, path: Path, states: States, table: ScalingTable | None) -> None:
        self._numbers[path] = states, table
        self.poll(now=True)
