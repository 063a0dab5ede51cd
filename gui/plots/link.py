"""Plots over the same time are panned, zoomed and followed together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .base import Plot


class TimeLink:
    """Links the x axes of the plots over time, and again whenever a plot has changed its axis."""

    def __init__(self, plots: Sequence[Plot]) -> None:
        self._plots = tuple(plots)
        for plot in self._plots:
            plot.axis_changed.connect(self.relink)
            plot.follow_changed.connect(lambda follow, plot=plot: self._follow(plot, follow))
        self.relink()

    def relink(self) -> None:
        """Link what is drawn over time, and nothing else."""
        linked = self._over_time()
        for plot in self._plots:
            leader = linked[0] if plot in linked[1:] else None
            plot.canvas.view.setXLink(leader.canvas.view if leader else None)
            plot.set_follow(True)

    def _over_time(self) -> list[Plot]:
        return [plot for plot in self._plots if plot.axis_name() == "time"]

    def _follow(self, origin: Plot, follow: bool) -> None:
        linked = self._over_time()
        for plot in linked if origin in linked else ():
            if plot is not origin:
                plot.set_follow(follow)
