"""The plot of a metric of several runs, and its controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from core.language import tr, tr_noop
from core.results.curves import BANDS, DEVIATION, INTERVAL, MIN_MAX, Member, curve, group_curve
from core.series.min_max_tree import Floats
from core.series.series import Axis, Series
from gui.base.theme import current_theme
from gui.features.compare.plots import ComparedPlot
from gui.features.compare.reader import ComparedRun, Entry
from gui.plots.card import Span
from gui.plots.controls import MetricControls, compact_box
from gui.plots.items.canvas import TOP_MARGIN_PX
from gui.plots.items.lines import BandItem, LineItem
from gui.plots.items.margin_labels import MarginLabel, MarginLabels
from gui.plots.items.marks import EdgeArrows
from gui.plots.ranks import fitting_range
from gui.widgets.buttons import compact_check
from gui.widgets.fields import SnugBox, select

AXES = {
    "step": tr_noop("by step"), "epoch": tr_noop("by epoch"), "samples": tr_noop("by samples"),
    "training": tr_noop("by training time"), "wall": tr_noop("by wall clock"),
}
"""The horizontal axes, as `core.results.curves` names them; the first is the default."""
BAND_TITLES = {
    MIN_MAX: tr_noop("band: min to max"), DEVIATION: tr_noop("band: ± standard deviation"),
    INTERVAL: tr_noop("band: 95 % interval"),
}
CHOICE_CHARACTERS = 22
AXIS_TIP = tr_noop("Horizontal axis. Time of training: from the first step on, without pauses")
BAND_TIP = tr_noop("What the band of runs that differ only in the seed shows. It ends where the first of them ends")
GROUP_TIP = tr_noop("Draw runs that differ only in the seed as one line: their mean, with a band")


class ComparisonControls(MetricControls):
    """Also has the choices about groups: runs that differ only in the seed."""

    def __init__(self) -> None:
        axis_box = compact_box(SnugBox(CHOICE_CHARACTERS), "comparedAxisBox", tr("Horizontal axis"), tr(AXIS_TIP))
        super().__init__(axis_box, AXES, "compared")
        self.band_box = compact_box(SnugBox(CHOICE_CHARACTERS), "comparedBandBox", tr("Band"), tr(BAND_TIP))
        for name, title in BAND_TITLES.items():
            self.band_box.addItem(tr(title), name)
        self.group_box = compact_check("comparedGroupBox", tr("group seeds"), tr(GROUP_TIP), checked=True)
        folding = [(self.group_box, self.band_box), (self.log_box,), (self.outliers_box,)]
        self.lay_out((self.axis_box, self.smoothing_button), folding, self.smoothing_button)
        self.band_box.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.group_box.toggled.connect(lambda _: self.changed.emit())

    @property
    def band(self) -> str:
        """One of `BANDS`."""
        return str(self.band_box.currentData())

    def show_groups(self, *, possible: bool) -> None:
        """Show the controls of groups only if there is one."""
        self.show_used(self.group_box, used=possible)
        self.show_used(self.band_box, used=possible and self.group_box.isChecked())

    def remember(self) -> dict[str, Any]:
        """Return the choices but the metric, for the settings file."""
        return {**super().remember(), "grouped": self.group_box.isChecked(), "band": self.band}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        super().restore(kept)
        if kept.get("band") in BANDS:
            select(self.band_box, kept["band"])
        self.group_box.setChecked(kept.get("grouped") is not False)


BOLD, BOLD_UP_TO = 2, 8
"""Depth of bold lines. Lines up to which all are bold, with a label at their end and groups with a band; of more lines,
up to as many groups are, and the line of the selected row: more bands would cover each other."""


class ComparisonPlot(ComparedPlot):
    """One metric of several runs. Few runs, or few groups, have a bold line each; a group has its mean and a band."""

    min_height_px = 170
    y_by_hand = True

    def __init__(self, *, name: str, title: str) -> None:
        super().__init__(name=name, title=title)
        self.controls = ComparisonControls()
        self.title.hide()
        self.header.insertWidget(0, self.controls.metric_box)
        self.header.insertWidget(3, self.controls)
        plot = self.canvas.getPlotItem()
        self.bold = [LineItem(plot, depth=BOLD) for _ in range(BOLD_UP_TO + 1)]
        """The bold lines, of which the first ones are used."""
        self._bands = [BandItem(plot, depth=-2) for _ in range(BOLD_UP_TO + 1)]
        self._selected: str | None = None
        self.bands: dict[str, tuple[Floats, Floats, Floats]] = {}
        """Positions, lower and upper ends of the band of each group, by its name."""
        self.arrows = EdgeArrows(self.canvas)
        self.ends = MarginLabels(self.canvas)
        self.recolour()

    def is_filled(self) -> bool:
        """Return whether a run has a finite value of the metric on this axis."""
        return any(self._member(run) is not None for entry in self.entries for run in entry.runs)

    def select(self, label: str | None) -> None:
        """Make the line of this entry bold where not all are, and wider than the others; None for no entry."""
        if label != self._selected:
            self._selected = label
            self.invalidate()

    @property
    def hidden_bands(self) -> int:
        """The number of groups that have no band now."""
        bold = self._bold_labels()
        return sum(len(entry.runs) > 1 and entry.name not in bold for entry in self.entries)

    def _bold_labels(self) -> set[str]:
        """Return the labels of the entries that have a bold line and, if they are groups, a band."""
        every = [entry.name for entry in self.entries]
        if len(every) <= BOLD_UP_TO:
            return set(every)
        groups = [entry.name for entry in self.entries if len(entry.runs) > 1]
        shown = groups if len(groups) <= BOLD_UP_TO else []
        return {*shown, *(label for label in every if label == self._selected)}

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Draw all runs and groups."""
        controls = self.controls
        log, weight = controls.logarithmic, controls.smoothing
        self.canvas.left.show_logarithmic(log)
        few, bold = len(self.entries) <= BOLD_UP_TO, self._bold_labels()
        lines = sum(len(entry.runs) for entry in self.entries) * (2 if few or not weight else 1)
        columns = self.columns(pixels, lines)
        self.clear_thin_lines()
        self.bands.clear()
        place = 0
        for entry in self.entries:
            members = [member for run in entry.runs if (member := self._member(run)) is not None]
            if not members:
                continue
            is_bold = entry.name in bold
            if len(members) > 1:
                x, y = self._draw_group(self._bands[place] if is_bold else None, entry, members, span, columns)
            else:
                series, axis = members[0].series, members[0].axis
                x, y = curve(series, axis, span, columns, weight, positive=log)
                if few and weight:
                    every = curve(series, axis, span, columns, 0.0, positive=log)
                    self._thin(f"{entry.name}-every", entry.colour, *every, is_faint=True)
            self.drawn[entry.name] = x, y
            if is_bold:
                if len(members) == 1:
                    self._bands[place].clear()
                width = 2 if weight or len(members) > 1 else 1
                is_chosen = entry.name == self._selected
                self.bold[place].paint_in(entry.colour, width=width + 2 * is_chosen)
                self.bold[place].lift(BOLD + is_chosen)  # above the others
                self.bold[place].show(x, y, logarithmic=log)
                place += 1
            else:
                self._thin(entry.name, entry.colour, x, y)
        self._clear_from(place)
        self.show_thin_lines()

    def _draw_group(
        self, band: BandItem | None, entry: Entry, members: Sequence[Member], span: Span, columns: int
    ) -> tuple[Floats, Floats]:
        """Draw the band of a group, and each run where not all go on; return its mean."""
        log = self.controls.logarithmic
        found = group_curve(members, span, columns, self.controls.smoothing, self.controls.band, positive=log)
        if band is not None:
            self.bands[entry.name] = found.x, found.low, found.high
            band.paint_in(entry.colour, outlined=current_theme().is_strong)
            band.show(found.x, found.low, found.high, logarithmic=log)
        for at, (x, y) in enumerate(found.rest, 1):
            self._thin(f"{entry.name} run {at}", entry.colour, x, y, is_faint=band is None)
        return found.x, found.mean

    def _thin(self, name: str, colour: str, x: Floats, y: Floats, *, is_faint: bool = False) -> None:
        self.thin_line(name, colour, is_faint=is_faint).show(x, np.log10(y) if self.controls.logarithmic else y)

    def _clear_from(self, place: int) -> None:
        """Clear the bold lines and bands that are not used."""
        for items in (self.bold, self._bands):
            for item in items[place:]:
                item.clear()

    def place_marks(self) -> None:
        """Label the ends of few lines, and mark what lies outside."""
        heights = [(x, self.controls.heights_of(y)) for x, y in self.drawn.values()]
        self.arrows.show([] if self.y_held else heights)
        right = self.canvas.x_range[1]
        labels = []
        bold = self._bold_labels()
        for entry in (each for each in self.entries if each.name in bold):
            x, y = self.drawn.get(entry.name, (np.empty(0), np.empty(0)))
            seen = np.flatnonzero(np.isfinite(y) & (x <= right))
            if len(seen):
                height = float(self.controls.heights_of(y[seen[-1:]])[0])
                labels.append(MarginLabel(y=height, text=entry.name, colour=entry.colour))
        self.ends.show_labels((), labels, spread=True)

    def measured(self) -> list[tuple[str, Series, Axis]]:
        """Return the run, the values and the axis of each line, also of each run of a group."""
        runs = [run for entry in self.entries for run in entry.runs]
        return [(run.measured.id, each.series, each.axis) for run in runs if (each := self._member(run)) is not None]

    def height_of(self, value: float) -> float:
        """Return the position of a value on the y axis, whose positions may be powers of ten."""
        return float(self.controls.heights_of(np.array([value]))[0])

    def value_text(self, value: float) -> str:
        """Return a value of the metric."""
        return f"{value:.5g}"

    def range_text(self, entry: Entry, x: float) -> str:
        """Return the ends of the band of a group at one of its points: ` (0.69 to 0.73)`."""
        places, low, high = self.bands.get(entry.name, (np.empty(0), np.empty(0), np.empty(0)))
        at = int(np.searchsorted(places, x))
        if at >= len(places) or not np.isfinite(low[at]):
            return ""
        return f" {tr('({lowest:.4g} to {highest:.4g})', lowest=float(low[at]), highest=float(high[at]))}"

    def _member(self, run: ComparedRun) -> Member | None:
        """Return the metric of a run with its axis; None if it has no finite value, or no such axis."""
        axis = self.axis(run) if self.metric_name in run.finite else None
        return None if axis is None else Member(series=run.measured.series.metrics[self.metric_name], axis=axis)

    def _y_span(self) -> Span | None:
        (lo, hi), height = self.canvas.x_range, self.controls.heights_of
        heights = [height(y[(x >= lo) & (x <= hi)]) for x, y in self.drawn.values()]
        heights += [height(end[(x >= lo) & (x <= hi)]) for x, *ends in self.bands.values() for end in ends]
        heights += [line.y[(line.x >= lo) & (line.x <= hi)] for line in self.many.lines.values() if len(line.x)]
        return fitting_range(heights, ignore_outliers=self.controls.ignores_outliers)

    def _recolour_lines(self) -> None:
        self.arrows.paint_in(current_theme().muted)
        self.ends.recolour()
        self.ends.make_room(entry.name for entry in self.entries)
        self.canvas.getPlotItem().setContentsMargins(0, TOP_MARGIN_PX, self.ends.width_px, 0)

    def _show_empty(self) -> None:
        self.bands.clear()
        super()._show_empty()
        self._clear_from(0)
