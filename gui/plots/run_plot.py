"""The base class of the plots of one run: a card that follows the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from core.language import tr, tr_noop
from core.series.run_series import RunSeries
from core.series.series import Axis, Series
from gui.plots.card import PlotCard, Span
from gui.plots.items.marks import ENDED, PAUSED, EndMark

AFTER_END_SHARE = 0.03
"""Minimum share of the training time to show after its end, where the memory is released."""

OpenSpan = tuple[float | None, float | None]
"""A range of unix times; None: to the end of what there is."""


class Plot(PlotCard):
    """A card that draws one aspect of a run. It follows its run until the user pans or zooms."""

    quantity: ClassVar[str] = ""
    """The attribute of `RunSeries` that has the readings which it draws; empty for one without devices."""
    labels_end: ClassVar[bool] = False
    """True if the line at the end of training has a label."""
    show_all_tip: ClassVar[str] = tr_noop("Show the whole run again (double-click, or A)")

    def __init__(self, *, name: str, title: str) -> None:
        self.run_series: RunSeries | None = None
        self.colours: Mapping[str, str] = {}
        self.present: Mapping[str, int] = {}
        """The devices whose present readings are drawn, and the bytes of their memory, 0 if unknown; empty: a run."""
        self._is_over = False
        self._start_text = ""
        chart = tr("{title} chart. Arrow keys pan, plus and minus zoom, A shows the whole run.", title=title)
        super().__init__(name=name, title=title, chart=chart)
        self.end = EndMark(self.canvas, labelled=self.labels_end)

    # What subclasses define.

    def axis_name(self) -> str:
        """Return the quantity on the x axis, one of `RunSeries.axes`."""
        return "time"

    def time_at(self, x: float) -> float | None:
        """Return the unix time of a position of the x axis; None if nothing was measured there."""
        return None if self.run_series is None else self.axis(self.run_series).locate(x)

    def place_time(self, time: float) -> float | None:
        """Return the position of a unix time on the x axis; None if nothing was measured then."""
        return None if self.run_series is None else float(self.axis(self.run_series).place(np.array([time]))[0])

    def show_times(self, times: OpenSpan) -> None:
        """Show these unix times on the x axis."""
        if self.run_series is None:
            return
        lo, hi = self.whole_span()
        since, until = (None if time is None else self.place_time(time) for time in times)
        lo, hi = lo if since is None else since, hi if until is None else until
        if lo < hi:
            self.canvas.view.setXRange(lo, hi, padding=0)

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return what the plot shows, with every measurement, by name."""
        raise NotImplementedError

    # What the card asks for.

    def version(self) -> int:
        """Return the version of what was measured."""
        return self.run_series.version if self.run_series else -1

    def whole_span(self) -> Span:
        """Return the full range of the x axis. The marked end of training may be later than the last reading."""
        ended, started = self._shown.training_ended, self._shown.started
        marked = ended - started if ended and started else 0.0
        return 0.0, max(self._shown.duration_s, marked * (1 + AFTER_END_SHARE), 1.0)

    def draw_lines(self, span: Span, pixels: int) -> None:  # noqa: ARG002 (as subclasses use them)
        """Mark the end of training on a time axis only: nothing after it has a step. Subclasses draw the run, too."""
        ended = self._shown.training_ended if self.axis_name() == "time" else None
        self.end.show(ended - self.axis(self._shown).origin if ended else None)

    def place_marks(self) -> None:
        """Place what depends on the visible range."""
        self.end.place()

    @property
    def _shown(self) -> RunSeries:
        assert self.run_series is not None
        return self.run_series

    # What the window calls.

    def recolour(self) -> None:
        """Take the colours of the theme."""
        self.end.recolour()
        super().recolour()

    def show_series(
        self, run_series: RunSeries | None, device_colours: Mapping[str, str], device_labels: Mapping[str, str],
        present: Mapping[str, int] | None = None,
    ) -> None:
        """Draw this run from the next `redraw` on. The mappings give colours, labels and `present` by device id."""
        is_other, self.present = run_series is not self.run_series, present or {}
        self.run_series, self.colours, self.labels = run_series, device_colours, device_labels
        self.canvas.make_room(device_labels.values())
        self._recolour_lines()
        self.invalidate()
        if is_other:
            self.set_note("")
            self.show_crosshair(None)
            self.set_follow(True)

    def show_axis(self, *, shown: bool) -> None:
        """Show the x axis, or leave it to a plot below."""
        if shown is not self.canvas.bottom.isVisible():
            self.canvas.getPlotItem().showAxis("bottom", shown)
            self.invalidate()

    def show_training_end(self, *, paused: bool, over: bool) -> None:
        """Label the end of training; `over`: the run does not train any more, even if no event says so."""
        if over != self._is_over:
            self._is_over = over
            self.invalidate()
        self.end.set_text(tr(PAUSED if paused else ENDED))

    def show_crosshair(self, time: float | None) -> None:
        """Mark a unix time; None removes the mark."""
        x = None if time is None or self._stack.currentWidget() is self._empty_page else self.place_time(time)
        self.crosshair.setVisible(x is not None)
        if x is not None:
            self.crosshair.setValue(x)

    def has_trained(self, run_series: RunSeries) -> bool:
        """Return whether the training of the run has ended. A run that was lost has no event that says so."""
        return self._is_over or run_series.training_ended is not None

    def show_start(self, text: str) -> None:
        """Say what the run does while there are no measurements; the empty string: it does not start."""
        if text != self._start_text:
            self._start_text = text
            if self._stack.currentWidget() is self._empty_page:
                self.empty.setText(self._empty_text())

    def _empty_text(self) -> str:
        if self._start_text and self.run_series is not None:
            return f"{self._start_text[0].upper()}{self._start_text[1:]}"
        return self._empty_words

    def axis(self, run_series: RunSeries) -> Axis:
        """Return the x axis of the run."""
        return run_series.axes[self.axis_name()]
