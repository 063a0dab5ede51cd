"""Scaling tables: read those in the folder, show them as rows, and draw them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QObject, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QSizePolicy

from core.catalog.strategies import strategy_title
from core.history.summary import RunSummary
from core.language import join_sentences, tr, tr_plural
from core.results.scaling_record import ScalingRecord, read_record
from core.results.scaling_table import ScalingTable, read_table, text_table
from core.runs.facts import RunState, state_info
from core.schema.paths import SCALING_SUFFIX
from gui.base.jobs import Jobs
from gui.base.painting import draw_elided, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.runs.groups import FOLDED, Group, fold, state_of, sweeps
from gui.widgets.plain_text import named

if TYPE_CHECKING:
    from gui.runs.run_list import RunListService


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """A scaling table with what became of its trainings."""

    record: ScalingRecord
    is_measured: bool
    """Whether a command makes its runs now."""
    states: tuple[RunState | None, ...]
    """The states of the trainings in their order; None for one that has no run."""
    table: ScalingTable | None
    """Its numbers, as far as they were read."""

    @property
    def done(self) -> int:
        """The number of finished trainings."""
        return self.states.count(RunState.FINISHED)

    @property
    def finished(self) -> list[Path]:
        """The folders of the runs of the finished trainings."""
        cells = zip(self.record.cells, self.states, strict=True)
        done = [cell for cell, state in cells if state is RunState.FINISHED]
        found = [self.record.run_of(len(spec.devices), repeat) for spec, repeat in done]
        return [each for each in found if each is not None]

    @property
    def is_complete(self) -> bool:
        """Whether all trainings have finished."""
        return self.done == len(self.states)

    @property
    def state(self) -> RunState:
        """The state of the whole, as of one run."""
        return RunState.RUNNING if self.is_measured else state_of(self.states)


def shown_cells(table: ScalingTable) -> list[list[str]]:
    """Return the rows of a table with the titles of the window, the first of them its headings."""
    return replace(text_table(table, strategy_title), capitals=False).cells()


# -- the rows in the list --------------------------------------------------------------------------


def fold_runs(
    found: Sequence[RunSummary], tables: Iterable[ShownTable], unfolded: Collection[Path], *, all_read: bool = False,
    others: Sequence[Group] = (),
) -> list[RunSummary]:
    """Put one row in the place of the newest run of each table, with the runs below it if it is unfolded.

    A table that has no run comes first if it is measured; otherwise last, once all runs are read. `unfolded`: the
    paths of the records. `others`: what is folded besides tables.
    """
    by_name = {each.dir.name: each for each in found} if tables else {}
    first, last, groups = list[RunSummary](), list[RunSummary](), [*others]
    for table in tables:
        group = _group(table, by_name)
        if group.members:
            groups.append(group)
        elif table.is_measured or (all_read and not any(table.states)):
            (first if table.is_measured else last).append(group)
    return [*first, *(fold(found, groups, unfolded) if groups else found), *last]


def _group(table: ShownTable, by_name: Mapping[str, RunSummary]) -> Group:
    """Return the row of a table with those of its runs that are found, the newest first."""
    counts = " · ".join(str(len(spec.devices)) for spec in table.record.specs)
    repeats, names, runs, said = table.record.repeats, list[str](), list[RunSummary](), outcome(table)
    for each in reversed(table.record.runs):
        if each.run in by_name:
            text = tr_plural("{count} device", "{count} devices", each.devices)
            name = tr("{devices}, {repeat} of {repeats}", devices=text, repeat=each.repeat, repeats=repeats)
            names.append(name if repeats > 1 else text)
            runs.append(by_name[each.run])
    return Group(
        dir=table.record.path, name=f"{FOLDED}{table.record.name}: {counts}", state=table.state, members=tuple(runs),
        names=tuple(names), words=said, outcome=said,
        started=max((each.started for each in runs if each.started is not None), default=None),
        tip=f"{tr('Scaling table {name}', name=table.record.name)}\n{table_sentence(table)}",
    )


def outcome(table: ShownTable) -> str:
    """Return `2 of 4 trained`, or `speed-up 3.70 on 4 devices`."""
    done = tr("{done} of {total} trained", done=table.done, total=len(table.states))
    if table.is_measured:
        return done
    if not table.is_complete:
        return f"{tr(state_info(table.state).label).lower()} · {done}"
    last = table.table.rows[-1] if table.table is not None else None
    if last is None or last.speed_up is None:
        return tr(state_info(RunState.FINISHED).label).lower()
    return tr_plural(
        "speed-up {gain:.2f} on {count} device", "speed-up {gain:.2f} on {count} devices", last.devices,
        gain=last.speed_up.mean,
    )


# -- the view ---------------------------------------------------------------------------------------


def table_sentence(table: ShownTable) -> str:
    """Return a sentence on the table: which training runs now, or how many have finished."""
    total = len(table.states)
    if table.is_measured:
        number = next((at for at, state in enumerate(table.states, 1) if state is not RunState.FINISHED), total)
        spec, _ = table.record.cells[number - 1]
        return tr_plural(
            "Training {number} of {total}: {count} device with the strategy {strategy}.",
            "Training {number} of {total}: {count} devices with the strategy {strategy}.",
            len(spec.devices), number=number, total=total, strategy=strategy_title(spec),
        )
    if table.is_complete:
        return tr_plural("{count} training has finished.", "All {count} trainings have finished.", total)
    left = tr("{done} of {total} trainings have finished. Continue makes the others.", done=table.done, total=total)
    return join_sentences([text for text in (tr(table.record.note), left) if text])


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
        self._unfolded: set[Path] = set()
        """What stands for several runs that are listed, too: the records of tables, and `Group.dir`."""
        self._sweeps: dict[tuple[str | None, str], Group] = {}
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

    def fold(self, found: Sequence[RunSummary]) -> list[RunSummary]:
        """Put one row in the place of runs that belong together. A search finds the runs themselves."""
        if self._run_list.search.text:
            return list(found)
        together = sweeps(found, self._sweeps)
        return fold_runs(found, self.tables, self._unfolded, all_read=not self._run_list.left, others=together)

    def unfold(self, path: Path) -> None:
        """List the runs of a table, too."""
        if path not in self._unfolded:
            self.turn(path)

    def turn(self, path: Path) -> bool:
        """Unfold the row of several runs, or fold it; return whether its runs are listed now."""
        self._unfolded ^= {path}
        self.changed.emit()
        return path in self._unfolded

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
            trained = tuple(states.get(last.get((len(spec.devices), repeat), "")) for spec, repeat in record.cells)
            table = self._numbers.get(record.path, (None, None))[1]
            shown.append(ShownTable(record=record, is_measured=record.is_measured, states=trained, table=table))
        return tuple(sorted(shown, key=lambda each: each.record.name))

    def _read_numbers(self) -> None:
        """Read the numbers of the next table of which other runs have finished since."""
        for each in self.tables:
            finished = tuple(state if state is RunState.FINISHED else None for state in each.states)
            if any(finished) and self._numbers.get(each.record.path, (None,))[0] != finished:
                self._read(each.record, finished)
                return

    def _read(self, record: ScalingRecord, states: States) -> None:
        take = partial(self._take, record.path, states)
        self._reading.start(partial(read_table, record), take, lambda _: take(None))

    def _take(self, path: Path, states: States, table: ScalingTable | None) -> None:
        self._numbers[path] = states, table
        self.poll(now=True)


MIN_PX = QSize(320, 190)
MARGIN_PX = 12
MAX_BAR_PX = 64
WHISKER_PX = 5


class ScalingBar(NamedTuple):
    """One number of devices."""

    devices: int
    speed_up: float | None = None
    """Over one device; None if it is not known."""
    deviation: float | None = None
    """Over the repeats; None for one training."""


class ScalingPlot(QFrame):
    """A card with a bar for each number of devices."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "scalingPlot", tr("Speed-up over one device"), card=True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.bars: tuple[ScalingBar, ...] = ()

    def show_bars(self, bars: Sequence[ScalingBar]) -> None:
        """Show these numbers of devices, the smallest first."""
        self.bars = tuple(bars)
        self.setAccessibleDescription(" ".join(_sentence(each) for each in self.bars))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return a size in which eight bars are legible."""
        return self.minimumSizeHint()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the least size with legible labels."""
        return QSize(scaled(MIN_PX.width()), scaled(MIN_PX.height()))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint the title, the bars and their labels."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        small, margin = small_font(self.font()), scaled(MARGIN_PX)
        row = painter.fontMetrics().height()
        inside = self.rect().adjusted(margin, margin // 2, -margin, -margin // 2)
        heading = QRect(inside.left(), inside.top(), inside.width(), row)
        draw_elided(painter, heading, tr("Speed-up over one device"), current_theme().text)
        draw_elided(painter, heading, tr("dashed: without any loss"), current_theme().muted, font=small, right=True)
        area = QRectF(inside.adjusted(0, 2 * row + 4, 0, -2 * row))
        if self.bars:
            self._paint_bars(painter, area, row)
        painter.end()

    def _paint_bars(self, painter: QPainter, area: QRectF, row: int) -> None:
        theme, step = current_theme(), area.width() / len(self.bars)
        highest = max(max(each.devices, (each.speed_up or 0) + (each.deviation or 0)) for each in self.bars)
        unit, width = area.height() / highest, min(scaled(MAX_BAR_PX), 0.6 * step)
        small = small_font(self.font())
        for at, bar in enumerate(self.bars):
            middle = area.left() + (at + 0.5) * step
            ideal = QRectF(middle - width / 2, area.bottom() - bar.devices * unit, width, bar.devices * unit)
            painter.setPen(QPen(QColor(theme.muted), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(ideal)
            top = ideal.top()
            if bar.speed_up is not None:
                drawn = QRectF(ideal.left(), area.bottom() - bar.speed_up * unit, width, bar.speed_up * unit)
                painter.fillRect(drawn, QColor(theme.accent))
                top = min(top, drawn.top())
                self._paint_whisker(painter, bar, middle, area.bottom(), unit)
            text = "–" if bar.speed_up is None else f"{bar.speed_up:.2f}"
            column = round(middle - step / 2)
            draw_centred(painter, QRect(column, round(top) - row - 2, round(step), row), text, theme.text)
            label = tr_plural("{count} device", "{count} devices", bar.devices)
            below = QRect(column, round(area.bottom()) + 2, round(step), row)
            painter.setFont(small)
            draw_centred(painter, below, label, theme.muted)
            if bar.speed_up is not None:
                share = f"{100 * bar.speed_up / bar.devices:.0f} %"
                draw_centred(painter, below.translated(0, row - 2), share, theme.muted)
            painter.setFont(self.font())
        painter.setPen(QPen(QColor(theme.panel_border), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())

    def _paint_whisker(self, painter: QPainter, bar: ScalingBar, middle: float, bottom: float, unit: float) -> None:
        """Paint the standard deviation over the repeats."""
        if bar.deviation is None or bar.speed_up is None:
            return
        painter.setPen(QPen(QColor(current_theme().text), 1))
        low, high = (bottom - (bar.speed_up + sign * bar.deviation) * unit for sign in (-1, 1))
        painter.drawLine(QPointF(middle, low), QPointF(middle, high))
        for y in (low, high):
            painter.drawLine(QPointF(middle - WHISKER_PX, y), QPointF(middle + WHISKER_PX, y))


def draw_centred(painter: QPainter, line: QRect, text: str, colour: str) -> None:
    """Draw one line of text in the middle."""
    painter.setPen(QColor(colour))
    painter.drawText(line, Qt.AlignmentFlag.AlignCenter, text)


def _sentence(bar: ScalingBar) -> str:
    if bar.speed_up is None:
        return tr_plural("{count} device: not known.", "{count} devices: not known.", bar.devices)
    return tr_plural("{count} device: {gain:.2f}.", "{count} devices: {gain:.2f}.", bar.devices, gain=bar.speed_up)


def bars_of(table: ScalingTable) -> list[ScalingBar]:
    """Return what the plot of a table shows."""
    found = [(row.devices, row.speed_up) for row in table.rows]
    return [ScalingBar(devices, gain.mean, gain.deviation) if gain else ScalingBar(devices) for devices, gain in found]
