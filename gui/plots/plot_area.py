"""All plots, stacked, with linked axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QMenu, QSplitter

from core.runs.states import RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from PySide6.QtCore import QPoint

    from core.runs.facts import RunFacts
    from core.series.run_series import RunSeries
    from gui.style.theme import Theme

    from .base import Plot
    from .loss import LossPlot
    from .utilisation import UtilisationPlot

SHARES = (17, 10, 10)
"""Shares of the height from top to bottom; further plots get the last share."""
MIN_HEIGHT_PX = 110
LIVE_NOTE = "this machine now: the run has no readings"
IDLE_S = 4.0
"""Seconds between two drawings while no run is shown: one pixel is then about a second."""


class PlotArea(QSplitter):
    """The plots of the registry in a vertical splitter; empty until `create_plots`."""

    copy_asked = Signal(object)
    """A plot whose values shall be copied."""
    picture_asked = Signal(object)
    """A plot of which a picture shall be saved."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self.setChildrenCollapsible(False)
        self.setHandleWidth(8)
        self._theme = theme
        self.plots: dict[str, Plot] = {}
        self.live_devices = True
        """Whether the plots of the devices show the present, not the run."""
        self._live_noted = False
        """Whether they say so."""
        self._ticked: frozenset[str] = frozenset()

    def create_plots(self) -> None:
        """Create the plots, once.

        Importing pyqtgraph and creating the plots takes a third of the start of the window, so that the devices and
        the setup are shown before.
        """
        from .registry import PLOTS

        self.plots = {row.name: row.make(self._theme) for row in PLOTS}
        for number, plot in enumerate(self.plots.values()):
            plot.setMinimumHeight(MIN_HEIGHT_PX)
            plot.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            plot.customContextMenuRequested.connect(lambda at, plot=plot: self._open_menu(plot, at))
            self.addWidget(plot)
            self.setStretchFactor(number, SHARES[min(number, len(SHARES) - 1)])
        self.setSizes([100 * SHARES[min(number, len(SHARES) - 1)] for number in range(len(self.plots))])
        self._link = PlotLink(list(self.plots.values()))

    def _open_menu(self, plot: Plot, at: QPoint) -> None:
        """Open the menu of a plot."""
        menu = QMenu(plot)
        menu.setObjectName("plotMenu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Copy values", lambda: self.copy_asked.emit(plot))
        menu.addAction("Save picture…", lambda: self.picture_asked.emit(plot))
        menu.addSeparator()
        menu.addAction("Show all", lambda: plot.set_follow(True)).setEnabled(not plot.shows_all)
        menu.popup(plot.mapToGlobal(at))

    def show_series(
        self, run: RunSeries | None, live: RunSeries, colours: Mapping[str, str], labels: Mapping[str, str],
        *, live_devices: bool,
    ) -> None:  # fmt: skip
        """Draw the run; with `live_devices`, the plots of the devices show their present readings (`live`) instead."""
        self.live_devices = live_devices
        self._emphasise()
        for name, plot in self.plots.items():
            is_live = live_devices and name != "lossPlot"
            plot.min_s = IDLE_S if is_live or run is None else 0.0
            plot.show_series(live if is_live else run, colours, labels)
            if is_live and (run is not None or self._live_noted):
                plot.set_note(LIVE_NOTE if run is not None else "")
        self._live_noted = live_devices and run is not None

    def show_ticks(self, devices: Collection[str]) -> None:
        """Draw these devices stronger than the others while the present readings are shown."""
        self._ticked = frozenset(devices)
        self._emphasise()

    def _emphasise(self) -> None:
        for plot in self.plots.values():
            plot.emphasise(self._ticked if self.live_devices else None)

    def show_memory_note(self, text: str, tone: str) -> None:
        """Show the memory verdict in the head of the memory plot; the empty string removes it."""
        if self.plots and not self.live_devices:
            self.plots["memoryPlot"].set_note(text, tone)

    def show_start(self, text: str) -> None:
        """Say in the plot of the loss what the run does before its first step; the empty string: nothing."""
        if self.plots:
            self._loss.show_start(text)

    def show_empty_words(self, words: Callable[[str], str]) -> None:
        """Set what stands in plots without measurements. `words`: returns the sentence for a plot by its name."""
        for name, plot in self.plots.items():
            plot.show_empty_words(words(name))

    def show_facts(self, facts: RunFacts) -> None:
        """Mark how training ended."""
        for plot in self.plots.values():
            plot.show_training_end(paused=facts.state is RunState.PAUSED)

    def redraw(self) -> None:
        """Redraw the plots that have changed."""
        for plot in self.plots.values():
            plot.redraw()

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._theme = theme
        for plot in self.plots.values():
            plot.set_theme(theme)

    def remember(self) -> dict[str, Any]:
        """Return how the plots are drawn, for the settings file."""
        return {**self._loss.controls.remember(), "utilisation": self._utilisation.chosen}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore how the plots are drawn; invalid values are ignored."""
        self._loss.controls.restore(kept)
        self._utilisation.choose(kept.get("utilisation"))

    @property
    def _loss(self) -> LossPlot:
        return self.plots["lossPlot"]  # type: ignore[return-value]  # as the registry has it

    @property
    def _utilisation(self) -> UtilisationPlot:
        return self.plots["utilisationPlot"]  # type: ignore[return-value]  # likewise


class PlotLink:
    """Moves the plots together, and shows in all of them where the mouse is in one.

    The plots of the devices share one axis, the time since the start of the run, with its interruptions and with the
    memory watch after its end. The loss has an axis of its own: steps, epochs, or the time of training. Positions are
    translated through the times at which the run's own steps were measured, whichever of these axes it has:

    - All plots of a run follow it, or none.
    - A range chosen in the loss plot shows in the others the time in which these steps were trained. If it reaches
      beyond the first or the last step, they show everything on that side: the start, the memory watch.
    - A range chosen in a plot of a device shows in the loss plot the steps trained in it. If there are none, the loss
      plot stays as it is.
    """

    def __init__(self, plots: Sequence[Plot]) -> None:
        self._plots = tuple(plots)
        self._over_time = tuple(plot for plot in self._plots if plot.axis_name() == "time")
        for plot in self._over_time[1:]:
            plot.canvas.view.setXLink(self._over_time[0].canvas.view)
        for plot in self._plots:
            plot.follow_changed.connect(lambda follow, plot=plot: self._follow(plot, follow))
            plot.canvas.moved_by_hand.connect(lambda plot=plot: self._move(plot))
            plot.canvas.pointed.connect(lambda x, plot=plot: self._point(plot, x))

    def _others(self, origin: Plot) -> list[Plot]:
        """Return the other plots of the same series: the devices may show the present beside a run of yesterday."""
        return [plot for plot in self._plots if plot is not origin and plot.run_series is origin.run_series]

    def _follow(self, origin: Plot, follow: bool) -> None:
        for plot in self._others(origin):
            plot.set_follow(follow)

    def _move(self, origin: Plot) -> None:
        times = origin.shown_times()
        for plot in self._others(origin):
            if not (plot in self._over_time and origin in self._over_time):
                plot.show_times(times)

    def _point(self, origin: Plot, x: float | None) -> None:
        time = None if x is None else origin.time_at(x)
        for plot in self._others(origin):
            plot.show_crosshair(time)
        origin.show_crosshair(None)
