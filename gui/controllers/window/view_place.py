"""What a window shows at a moment: kept while all its parts are made again, such as in another language.

The choices and the layout are not in it: `window_state` has them.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QAbstractScrollArea, QMainWindow, QScrollBar, QWidget

from core.runs.run import Run
from gui.services.services import Services

from .dock_layout import MainPanels

TRIES = 40
"""Polls after which a scroll position is given up: what it was in has become shorter."""


class ViewPlace:
    """Made of one set of panels and services; `restore` shows the same in another set."""

    def __init__(self, window: QMainWindow, panels: MainPanels, services: Services) -> None:
        focus, details = window.focusWidget(), panels.details
        self._session = services.session
        self._run_dir: Path | None = services.session.run.dir if services.session.run is not None else None
        self._looked_at = services.missed_runs.looked_at
        self._search = panels.run_filter.text()
        self._ticked = panels.runs.ticked if panels.runs.has_several else []
        self._compares = panels.plots.replaced
        self._tab = details.currentIndex()
        self._rank, self._follows_log = details.log.rank_box.currentIndex(), details.log.follow_box.isChecked()
        self._sheet = panels.setup.sheet.search.text() if panels.setup.sheet.isVisible() else None
        self._times = {name: plot.shown_times() for name, plot in panels.plots.plots.items() if not plot.follows}
        self._focus = focus.objectName() if focus is not None else ""
        self._scrolled = {name: (bars[0].value(), bars[1].value()) for name, bars in _scroll_bars(window).items()}
        self._waiting: list[tuple[QScrollBar, int]] = []
        self._tries = TRIES

    def restore(self, window: QMainWindow, panels: MainPanels, services: Services) -> None:
        """Show the same run at the same place, as far as it is there."""
        if self._run_dir is not None:
            services.session.take_over(self._session, Run(self._run_dir))
        del self._session
        services.missed_runs.keep_looked_at(self._looked_at)
        panels.run_filter.setText(self._search)
        if self._ticked:
            panels.runs.tick(self._ticked)
        if self._compares:
            panels.actions.do("compare", panels.runs.ticked)
        details = panels.details
        if details.tabs.isTabVisible(self._tab):
            details.tabs.setCurrentIndex(self._tab)
        details.log.follow_box.setChecked(self._follows_log)
        if 0 <= self._rank < details.log.rank_box.count():
            details.log.rank_box.setCurrentIndex(self._rank)
        if self._sheet is not None:
            panels.setup.sheet.toggle()
            panels.setup.sheet.search.setText(self._sheet)
        panels.plots.redraw()
        for name, times in self._times.items():
            if name in panels.plots.plots:
                panels.plots.plots[name].set_follow(False)
                panels.plots.plots[name].show_times(times)
        focus = window.findChild(QWidget, self._focus) if self._focus else None
        (focus or window).setFocus()
        bars = _scroll_bars(window)
        self._waiting = [
            (bar, value)
            for name, values in self._scrolled.items()
            if name in bars
            for bar, value in zip(bars[name], values, strict=True)
            if value
        ]

    def scroll_on(self) -> bool:
        """Scroll what has become long enough meanwhile; return whether there is more to do."""
        self._tries -= 1
        for bar, value in self._waiting:
            if bar.maximum() >= value:
                bar.setValue(value)
        self._waiting = [each for each in self._waiting if each[0].maximum() < each[1]]
        return bool(self._waiting) and self._tries > 0


def _scroll_bars(window: QMainWindow) -> dict[str, tuple[QScrollBar, QScrollBar]]:
    """Return the scroll bars by the name of their area; of several areas without a name, by class and number."""
    found: dict[str, tuple[QScrollBar, QScrollBar]] = {}
    for area in window.findChildren(QAbstractScrollArea):
        name = area.objectName() or type(area).__name__
        while name in found:
            name += "+"
        found[name] = (area.horizontalScrollBar(), area.verticalScrollBar())
    return found
