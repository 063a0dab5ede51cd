"""All plots, stacked, with linked axes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QMenu, QScrollArea, QSplitter, QWidget

from core.devices.device import own_id
from core.language import tr, tr_noop
from core.runs.facts import RunFacts, RunState, state_info
from core.series.run_series import RunSeries
from gui.base.timers import StepQueue
from gui.widgets.buttons import compact_button
from gui.widgets.layouts import scroll_down, vbox
from gui.widgets.plain_text import named

if TYPE_CHECKING:
    from gui.plots.loss import LossPlot
    from gui.plots.registry import PlotRow
    from gui.plots.run_plot import Plot
    from gui.plots.utilisation import UtilisationPlot


BETWEEN_PX = 8
"""Height of the room between two plots."""
MIN_HEIGHT_PX = 220
"""Least height of all plots together; they are scrolled where they need more."""
MIN_SEEN_PX = 120
"""Least height in which plots can be seen above a message."""
SHARES = (17, 10, 10)
"""Shares of the height from top to bottom; further plots get the last share."""
LIVE_NOTE = tr_noop("this machine now: the run has no readings")
IDLE_S = 6.0
"""Seconds between two drawings while no run is shown: one pixel is then a second or more."""


class PlotArea(QSplitter):
    """The plots of the registry in a vertical splitter; empty until `create_plots`.

    Without a run they are those of the machine: the plots of devices that have readings, above one axis.
    """

    copy_asked = Signal(object)
    """A plot whose values shall be copied."""
    shown_on_request = Signal(object)
    """A plot that was hidden, or not there, is shown now."""
    picture_asked = Signal(object)
    """A plot of which a picture shall be saved."""
    resized = Signal()
    """The plots have other heights."""
    teach_asked = Signal()
    """The user wants to say which number of the log is the loss."""
    machine_changed = Signal()
    """`shows_machine` has changed, or the height that suits the plots of the machine."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self.setChildrenCollapsible(False)
        self.setHandleWidth(BETWEEN_PX)
        self.plots: dict[str, Plot] = {}
        self.replaced = False
        """Whether something else is shown in their place."""
        self.live_devices = True
        """Whether the plots of the devices show the present, not the run."""
        self._live_noted = False
        """Whether they say so."""
        self.is_machine = True
        """Whether no run is shown."""
        self._told: object = None
        self._live = RunSeries()
        self._left_out: frozenset[str] = frozenset()
        self._chosen = {"shown": set[str](), "on_machine": {"temperaturePlot"}}
        """The plots on request that the user wants, with a run and without, by their name in the settings file."""
        self._rows: dict[str, PlotRow] = {}
        self._has_gpus = True
        """Whether a device that is drawn may be a GPU."""
        self._feed: Callable[[str, Plot], None] = lambda _, __: None
        """Gives a plot by its name what the others show."""
        self._empty_words: Callable[[str], str] = lambda _: ""
        self._state = RunState.CREATED
        self._turns = StepQueue(self)
        self._waiting: deque[Plot] = deque()
        """Plots that are to be redrawn, each in a turn of the event loop."""
        self.optional_menu = QMenu(tr("&Plots"), self)
        """Shows and hides the plots that are shown on request."""
        self.optional_menu.setObjectName("plotsMenu")
        self.optional_menu.aboutToShow.connect(lambda: self._fill(self.optional_menu))

    @property
    def first_px(self) -> int:
        """Height of the uppermost plot, or of all the room before the plots are created."""
        first = self.widget(0)
        return self.height() if first is None else first.height()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Report the new height of a plot. It may also have changed because another one needs more room."""
        if event.type() == QEvent.Type.Resize:
            self.resized.emit()
        return super().eventFilter(watched, event)

    def load(self) -> None:
        """Import what the plots need; `create_plots` does so, too, but at once the two would block the window long."""
        from gui.plots import registry  # noqa: F401 (with it numpy and pyqtgraph)

    def create_plots(self) -> None:
        """Create the plots, once.

        Importing pyqtgraph and creating the plots takes a third of the start of the window, so that the devices and
        the setup are shown before.
        """
        from gui.plots.registry import PLOTS, PlotLink

        self._rows = {row.name: row for row in PLOTS}
        for row in PLOTS:
            if not row.optional:
                self._add(row)
        self.setSizes([100 * SHARES[min(number, len(SHARES) - 1)] for number in range(len(self.plots))])
        self._link = PlotLink(list(self.plots.values()))
        self._loss.teach_button.clicked.connect(self.teach_asked)
        self._arrange()

    def _add(self, row: PlotRow) -> Plot:
        """Create a plot and put it in its place."""
        plot = row.make()
        plot.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        plot.customContextMenuRequested.connect(lambda at: self._open_menu(plot, at))
        names = list(self._rows)
        place = sum(names.index(name) < names.index(row.name) for name in self.plots)
        if not self.plots:
            from gui.plots.metric_cards import MetricCards

            self.cards = MetricCards(plot)  # type: ignore[arg-type]  # the first row is the loss
        self.insertWidget(place, plot if self.plots else self.cards)
        self.setStretchFactor(place, SHARES[min(place, len(SHARES) - 1)])
        plot.installEventFilter(self)
        self.plots[row.name] = plot
        return plot

    @property
    def optional_plots(self) -> dict[str, str]:
        """The titles of the plots that are shown on request, by name; none before the plots are created."""
        return {row.name: tr(row.title) for row in self._rows.values() if row.optional}

    def is_plot_shown(self, name: str) -> bool:
        """Return whether a plot is shown; one on request may have no readings yet."""
        return name in (self._wanted if name in self.optional_plots else self.plots)

    def set_plot_shown(self, name: str, shown: bool) -> None:
        """Show or hide a plot that is shown on request. It is created when it is first shown."""
        if name not in self.optional_plots or shown == self.is_plot_shown(name):
            return
        (self._wanted.add if shown else self._wanted.discard)(name)
        self._arrange()
        if shown and not self.is_machine:  # what is asked for now says why it is empty
            (self.plots.get(name) or self._add_optional(name)).show()
        plot = self.plots.get(name)
        if plot is not None and shown:
            plot.invalidate()
            plot.redraw()
            self.shown_on_request.emit(plot)

    @property
    def shows_machine(self) -> bool:
        """Whether the plots of the machine can be seen."""
        return self.is_machine and not self.replaced

    @property
    def _wanted(self) -> set[str]:
        return self._chosen["on_machine" if self.is_machine else "shown"]

    def _arrange(self) -> None:
        """Show the plots that are wanted, but none that has nothing to say here."""
        for name in sorted(self._wanted - self.plots.keys()):
            if self._has_gpus if not self.is_machine else getattr(self._live, self._rows[name].target.quantity):
                self._add_optional(name)
        for name, plot in self.plots.items():
            shown = self.is_plot_shown(name)
            if self.is_machine and plot is not self._utilisation:
                shown = shown and plot is not self._loss and plot.is_filled()
            elif self._rows[name].optional:
                shown = shown and self._has_gpus
            if shown is plot.isHidden():
                plot.setVisible(shown)
        self.cards.setHidden(self._loss.isHidden())
        seen = [self.plots[name] for name in self._rows if name in self.plots and not self.plots[name].isHidden()]
        for plot in seen:
            plot.show_axis(shown=not self.is_machine or plot is seen[-1])

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size for the plots, and for the room between them, which Qt leaves out."""
        between = BETWEEN_PX * (sum(not plot.isHidden() for plot in self.plots.values()) - 1)
        return super().sizeHint() + QSize(0, max(between, 0))

    def tell_machine(self) -> None:
        """Emit `machine_changed` if it is due."""
        told = self.shows_machine and (self.parentWidget() or self).sizeHint().height()  # with what stands above
        if told != self._told:
            self._told = told
            self.machine_changed.emit()
            QTimer.singleShot(0, self, self.machine_changed.emit)  # the layouts above take the new height later

    def _add_optional(self, name: str) -> Plot:
        plot = self._add(self._rows[name])
        tip = tr("Hide this plot (menu View, Plots, shows it again)")
        spoken = tr("Hide the {title} plot", title=tr(self._rows[name].title).lower())
        hide = compact_button(f"{name}Hide", tr("Hide"), tip, role="flat", spoken=spoken)
        hide.clicked.connect(lambda: self.set_plot_shown(name, False))
        plot.header.addWidget(hide)
        self._link.add(plot)
        plot.show_training_end(paused=self._state is RunState.PAUSED, over=state_info(self._state).over)
        plot.show_empty_words(self._empty_words(name))
        plot.set_follow(self._loss.follows)
        self._feed(name, plot)
        return plot

    def _fill(self, menu: QMenu) -> None:
        """Fill a menu with a check box for each plot that is shown on request."""
        menu.clear()
        for name, title in self.optional_plots.items():
            action = menu.addAction(title)
            action.setObjectName(f"{name}Action")
            action.setCheckable(True)
            action.setChecked(self.is_plot_shown(name))
            action.toggled.connect(lambda shown, name=name: self.set_plot_shown(name, shown))

    def _open_menu(self, plot: Plot, at: QPoint) -> None:
        """Open the menu of a plot."""
        menu = named(QMenu(plot), "plotMenu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(tr("Copy values"), lambda: self.copy_asked.emit(plot))
        menu.addAction(tr("Save picture…"), lambda: self.picture_asked.emit(plot))
        menu.addSeparator()
        menu.addAction(tr("Show all"), lambda: plot.set_follow(True)).setEnabled(not plot.shows_all)
        self._fill(menu.addMenu(tr("Plots")))
        menu.popup(plot.mapToGlobal(at))

    def show_series(
        self, run: RunSeries | None, live: RunSeries, colours: Mapping[str, str], labels: Mapping[str, str],
        *, live_devices: bool, devices: Iterable[str] = (), sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Draw the run; with `live_devices`, the plots of the devices show their present readings (`live`) instead.

        `devices`: those that are drawn, if they are known. If they are all CPUs, what only GPUs have is left out.
        `sizes`: the bytes of the memory of devices, by id.
        """
        self.live_devices, self.is_machine, self._live = live_devices, run is None, live
        self._has_gpus = {own_id(each).startswith("cpu:") for each in devices} != {True}
        was_noted = self._live_noted

        def feed(name: str, plot: Plot) -> None:
            is_live = live_devices and name != "lossPlot"
            plot.min_s = IDLE_S if is_live or run is None else 0.0
            here = (each for each in _but_cpus_beside_gpus(colours) if each not in self._left_out)
            present = {each: (sizes or {}).get(each, 0) for each in here if is_live}
            plot.show_series(live if is_live else run, colours, labels, present)
            if is_live and (run is not None or was_noted):
                plot.set_note(tr(LIVE_NOTE) if run is not None else "")

        self._feed = feed
        for name, plot in self.plots.items():
            feed(name, plot)
        self._live_noted = live_devices and run is not None
        if self.plots:
            self._arrange()
        self.tell_machine()

    def leave_out(self, devices: Collection[str]) -> None:
        """Do not draw the present readings of these devices."""
        if self._left_out != {*devices}:
            self._left_out = frozenset(devices)
            for name, plot in self.plots.items():
                self._feed(name, plot)

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
        self._empty_words = words
        for name, plot in self.plots.items():
            plot.show_empty_words(words(name))

    def offer_teaching(self, offered: bool) -> None:
        """Offer to look for the loss in the log, below the sentence of a plot without measurements."""
        if self.plots:
            self._loss.teach_button.setVisible(offered)

    def show_facts(self, facts: RunFacts) -> None:
        """Mark how training ended."""
        self._state = facts.state
        for plot in self.plots.values():
            plot.show_training_end(paused=self._state is RunState.PAUSED, over=state_info(self._state).over)

    def redraw_in_turns(self) -> None:
        """Redraw the plots that have changed, unless something else is in their place.

        Each has a turn of the event loop of its own: long curves take long together.
        """
        seen = self._seen()
        due = [plot for plot in seen if plot.is_due()]
        if due and self.is_machine:
            self._arrange()  # there may be the first readings
        self.tell_machine()
        # A plot that is drawn changes the time range of the linked plots. They are drawn in the same round: otherwise
        # they are drawn later, with newer readings, and change its range in turn, and so on at every round.
        moved = [each for plot in due for each in self._link.moved_by(plot) if each in seen]
        new = [plot for plot in dict.fromkeys([*due, *moved]) if plot not in self._waiting]
        if new or (seen and self.cards.is_due()):
            self._waiting.extend(new)
            self._turns.start([*[self._redraw_next] * len(new), self.cards.redraw])

    def _redraw_next(self) -> None:
        plot = self._waiting.popleft()
        if plot in self._seen():
            plot.redraw()

    def _seen(self) -> list[Plot]:
        """Return the plots that can be seen now."""
        return [] if self.replaced else [plot for plot in self.plots.values() if not plot.isHidden()]

    def remember(self) -> dict[str, Any]:
        """Return how the plots are drawn, for the settings file."""
        chosen = {name: sorted(plots) for name, plots in self._chosen.items()}
        return {**self._loss.controls.remember(), "utilisation": self._utilisation.chosen, **chosen}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore how the plots are drawn; invalid values are ignored."""
        self._loss.controls.restore(kept)
        self._utilisation.choose(kept.get("utilisation"))
        for name in self._chosen.keys() & kept.keys():
            known = kept[name] if isinstance(kept[name], list) else []
            self._chosen[name] = {each for each in self.optional_plots if each in known}
        self._arrange()

    @property
    def _loss(self) -> LossPlot:
        return self.plots["lossPlot"]  # type: ignore[return-value]  # as the registry has it

    @property
    def _utilisation(self) -> UtilisationPlot:
        return self.plots["utilisationPlot"]  # type: ignore[return-value]  # likewise


def _but_cpus_beside_gpus(devices: Iterable[str]) -> list[str]:
    """Return these devices, without the CPU devices of machines that have a GPU."""
    own = {device: own_id(device) for device in devices}
    gpus = {device: each for device, each in own.items() if not each.startswith("cpu:")}
    hosts = {device.removesuffix(each) for device, each in gpus.items()}
    return [device for device, each in own.items() if device in gpus or device.removesuffix(each) not in hosts]


class PlotScroll(QScrollArea):
    """Scrolls the plots where they need more height than there is."""

    covered = Signal(bool)
    """Whether something else is shown in the place of the plots now."""

    def __init__(self, plots: PlotArea, *above: QWidget) -> None:
        """`above`: what stands above the plots."""
        super().__init__()
        self.setObjectName("plotScroll")
        scroll_down(self)
        self.setMinimumHeight(MIN_HEIGHT_PX)
        self.other: QWidget | None = None
        """What is shown in the place of the plots."""
        self._plots = plots
        self.page = QWidget()
        self._column = vbox(self.page, *above, (plots, 1), gap=BETWEEN_PX)
        self.setWidget(self.page)
        # The new plot has its place only after this turn of the event loop.
        plots.shown_on_request.connect(lambda plot: QTimer.singleShot(0, plot, lambda: self.ensureWidgetVisible(plot)))

    def show_instead(self, other: QWidget | None) -> None:
        """Show another widget in the place of the plots; None shows the plots again. Each is added once."""
        if other is not None and self._column.indexOf(other) < 0:
            self._column.addWidget(other)
        for widget in (self.other, other):
            if widget is not None:
                widget.setVisible(widget is other)
        self._plots.setVisible(other is None)
        self._plots.replaced = other is not None
        self._plots.tell_machine()
        self.other = other
        self.covered.emit(other is not None)

    def keep_free(self, height: int) -> None:
        """Leave this height free at the foot, with a gap above it; 0: nothing."""
        below = min(height + BETWEEN_PX, self.height() - MIN_SEEN_PX) if height else 0
        if below != self.viewportMargins().bottom():
            self.setViewportMargins(0, 0, 0, max(below, 0))
