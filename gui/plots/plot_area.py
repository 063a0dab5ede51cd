"""The plots, one above the other, on one axis of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter

from core.runs.states import RunState
from gui.plots.items.end_mark import ENDED, PAUSED
from gui.widgets.forms.fields import select

from .link import TimeLink
from .registry import PLOTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.runs.facts import RunFacts
    from core.series.run_series import RunSeries
    from gui.style.theme import Theme

    from .base import Plot
    from .loss import LossPlot

SHARES = (17, 10, 10)
"""Of the height, from above; further plots get as much as the last."""
MIN_HEIGHT_PX = 110
IDLE_S = 4.0
"""Between two drawings while nothing trains: minutes are shown, of which a pixel is about a second, all day long."""


class PlotArea(QSplitter):
    """All plots of the registry."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self.setChildrenCollapsible(False)
        self.setHandleWidth(8)
        self.plots: dict[str, Plot] = {row.name: row.make(theme) for row in PLOTS}
        for number, plot in enumerate(self.plots.values()):
            plot.setMinimumHeight(MIN_HEIGHT_PX)
            self.addWidget(plot)
            self.setStretchFactor(number, SHARES[min(number, len(SHARES) - 1)])
        self.setSizes([100 * SHARES[min(number, len(SHARES) - 1)] for number in range(len(self.plots))])
        self._link = TimeLink(list(self.plots.values()))

    def show_books(
        self, run: RunSeries | None, live: RunSeries, colours: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Draw the run; without one, the devices as they are now."""
        for name, plot in self.plots.items():
            plot.min_s = IDLE_S if run is None else 0.0
            plot.show_book(run if run is not None or name == "lossPlot" else live, colours, labels)

    def show_verdict(self, text: str, tone: str) -> None:
        """Say beside the plot of memory what became of it; no text takes it back."""
        self.plots["memoryPlot"].set_note(text, tone)

    def show_facts(self, facts: RunFacts) -> None:
        """Tell the plots how training ended, and when it was resumed."""
        begun = [time for time, state in facts.history if state is RunState.STARTING]
        for plot in self.plots.values():
            plot.show_story(PAUSED if facts.state is RunState.PAUSED else ENDED, tuple(begun[1:]))

    def redraw(self) -> None:
        """Bring all drawings up to date."""
        for plot in self.plots.values():
            plot.redraw()

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        for plot in self.plots.values():
            plot.set_theme(theme)

    def remember(self) -> dict[str, Any]:
        """How the loss is drawn, for another day."""
        controls = self._loss.controls
        return {"axis": controls.axis, "smoothing": controls.smoothing, "logarithmic": controls.logarithmic}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Draw as was remembered; what makes no sense is left out."""
        controls = self._loss.controls
        for box, name, kind in ((controls.axis_box, "axis", str), (controls.smoothing_box, "smoothing", int)):
            if isinstance(kept.get(name), kind):
                select(box, kept[name])
        controls.log_box.setChecked(kept.get("logarithmic") is True)

    @property
    def _loss(self) -> LossPlot:
        return self.plots["lossPlot"]  # type: ignore[return-value]  # the registry's row says so
