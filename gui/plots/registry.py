"""The plots of the window, one row each, from top to bottom, and how they move together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.language import tr, tr_noop
from gui.plots.devices import ClockPlot, MemoryPlot, PowerPlot, TemperaturePlot
from gui.plots.loss import LossPlot
from gui.plots.run_plot import Plot
from gui.plots.utilisation import UtilisationPlot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """One plot of the window."""

    name: str
    """Object name of the widget."""
    title: str
    target: type[Plot]
    optional: bool = False
    """Whether it is shown on request only."""

    def make(self) -> Plot:
        """Create the plot; it is empty until it gets a run."""
        return self.target(name=self.name, title=tr(self.title))


PLOTS = (
    PlotRow(name="lossPlot", title=tr_noop("Loss"), target=LossPlot),
    PlotRow(name="utilisationPlot", title=tr_noop("Utilisation"), target=UtilisationPlot),
    PlotRow(name="memoryPlot", title=tr_noop("Memory"), target=MemoryPlot),
    PlotRow(name="temperaturePlot", title=tr_noop("Temperature"), target=TemperaturePlot, optional=True),
    PlotRow(name="powerPlot", title=tr_noop("Power"), target=PowerPlot, optional=True),
    PlotRow(name="clockPlot", title=tr_noop("Clock"), target=ClockPlot, optional=True),
)


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
        self._plots: list[Plot] = []
        self._over_time: list[Plot] = []
        for plot in plots:
            self.add(plot)

    def add(self, plot: Plot) -> None:
        """Link one more plot."""
        self._plots.append(plot)
        if plot.axis_name() == "time":
            if self._over_time:
                plot.canvas.view.setXLink(self._over_time[0].canvas.view)
            self._over_time.append(plot)
        plot.follow_changed.connect(lambda follow: self._follow(plot, follow))
        plot.canvas.moved_by_hand.connect(lambda: self._move(plot))
        plot.canvas.pointed.connect(lambda x: self._point(plot, x))

    def moved_by(self, plot: Plot) -> Sequence[Plot]:
        """Return the plots whose range is always that of this one, and this one."""
        return self._over_time if plot in self._over_time else [plot]

    def _others(self, origin: Plot) -> list[Plot]:
        """Return the other plots of the same series: the devices may show the present beside a run of yesterday."""
        return [plot for plot in self._plots if plot is not origin and plot.run_series is origin.run_series]

    def _follow(self, origin: Plot, follow: bool) -> None:
        for plot in self._others(origin):
            plot.set_follow(follow)

    def _move(self, origin: Plot) -> None:
        lo, hi = origin.canvas.x_range
        times = origin.time_at(lo), origin.time_at(hi)
        for plot in self._others(origin):
            if not (plot in self._over_time and origin in self._over_time):
                plot.show_times(times)

    def _point(self, origin: Plot, x: float | None) -> None:
        time = None if x is None else origin.time_at(x)
        for plot in self._others(origin):
            plot.show_crosshair(time)
        origin.show_crosshair(None)
