"""The plots of the window, one row each, from top to bottom."""

from __future__ import annotations

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
