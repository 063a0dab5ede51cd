"""The plots of the window. Another plot is another file and another row here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .loss import LossPlot
from .memory import MemoryPlot
from .utilisation import UtilisationPlot

if TYPE_CHECKING:
    from gui.style.theme import Theme

    from .base import Plot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """One plot of the window."""

    name: str
    """Its object name."""
    title: str
    target: type[Plot]

    def make(self, theme: Theme) -> Plot:
        """The plot itself; it shows nothing until it is given a book."""
        return self.target(name=self.name, title=self.title, theme=theme)


PLOTS = (
    PlotRow(name="lossPlot", title="Loss", target=LossPlot),
    PlotRow(name="utilisationPlot", title="Utilisation", target=UtilisationPlot),
    PlotRow(name="memoryPlot", title="Memory", target=MemoryPlot),
)
