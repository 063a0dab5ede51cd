"""The panels of the window, made once, and their places in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, QEvent, QObject, QSize, Qt, QTimer
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QMainWindow, QStyle, QTabBar, QTabWidget, QWidget

from core.language import tr
from gui.base.text_size import scaled
from gui.base.theme import look
from gui.features.devices.panel import DevicePanel
from gui.features.memory.tab import LeftoversStrip
from gui.features.run.failure import FailureCard
from gui.features.runlist.bars import MachineEntry, RunFilter, SeveralBar
from gui.features.runlist.view import RunList
from gui.features.setup.first_steps import FirstSteps
from gui.features.setup.panel import SetupPanel
from gui.plots.area import PlotArea, PlotScroll
from gui.plots.exports import Exporter
from gui.runs.actions import RunActions
from gui.widgets.dock import Dock
from gui.widgets.layouts import vbox
from gui.widgets.messages import MessageStack, MessageStrip
from gui.widgets.overlay import CentredOverlay, FootOverlay, TopOverlay
from gui.widgets.plain_text import PlainLabel
from gui.window.details import DetailTabs
from gui.window.header import HeaderPanel
from gui.window.menus import MenuBar

if TYPE_CHECKING:
    from gui.features.compare.view import ComparisonView


class MainPanels:
    """Every panel of a window. Panels do not use each other."""

    def __init__(self, window: QMainWindow) -> None:
        self.menu = MenuBar()
        self.actions = RunActions()
        self.header = HeaderPanel(self.actions)
        self.message = MessageStrip("messageStrip")
        self.exporter = Exporter(self.message)
        self.run_message = MessageStrip("runStrip")
        self.leftovers = LeftoversStrip()
        self.host_message = MessageStrip("hostStrip")
        """About the connection to the host whose runs are shown."""
        self.broken = MessageStrip("brokenStrip")
        """Which parts of the window do not work."""
        self.messages = MessageStack((self.message, self.run_message, self.leftovers, self.host_message, self.broken))
        self.devices = DevicePanel()
        self.setup = SetupPanel(window)
        self.machine = MachineEntry()
        self.run_filter = RunFilter()
        self.runs_left = PlainLabel(name="runsLeft", role="small")
        self.runs_left.setIndent(8)
        self.runs_left.hide()
        self.runs = RunList(self.actions)
        self.several = SeveralBar()
        self.details = DetailTabs()
        self.plots = PlotArea()
        self.scroll = PlotScroll(self.plots)
        self.comparison: ComparisonView | None = None
        """The view of several runs; created when it is first opened."""
        self.comparison_choices: Mapping[str, Any] = {}
        """How several runs are drawn, as the settings file has it."""
        self.failure = FailureCard()
        self.first_steps = FirstSteps()

    @property
    def window(self) -> QWidget:
        """The window that the panels are in."""
        return self.header.window()


LAYOUT_VERSION = 1
"""The version of `QMainWindow.saveState`; a state of another version is ignored."""
SIZE, MIN_SIZE = QSize(1480, 900), QSize(900, 560)
MARGIN_PX = 10
SIDE_SHARE, RUNS_SHARE = 0.25, 0.155
"""Shares of the width of the window."""
DEVICES_SHARE = 0.6
"""Largest share of the devices in the height of their side; the training gets the rest."""
MIN_SIDE_PX, MIN_RUNS_PX = 344, 196
NARROW_PX = 1100
"""In a window that is narrower the buttons are icons, and the runs are behind the devices: a tab leads to them."""
LOG_SHARE = 0.21
"""Share of the height of the window."""


class DockLayout(QObject):
    """The docks of one window. They keep their shares when the window is resized, until the user moves one."""

    def __init__(self, window: QMainWindow, panels: MainPanels) -> None:
        super().__init__(window)
        self._window = window
        self._moved = False
        self._header = panels.header
        self._is_narrow = False
        self._before: list[QSize] = []
        """The sizes of the docks when the mouse was pressed on a border; else empty."""
        self._devices = panels.devices
        window.setMinimumSize(MIN_SIZE)
        window.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        window.setContentsMargins(MARGIN_PX, 0, MARGIN_PX, MARGIN_PX)
        window.setDockOptions(
            QMainWindow.DockOption.AllowNestedDocks
            | QMainWindow.DockOption.AllowTabbedDocks
            | QMainWindow.DockOption.AnimatedDocks
        )
        self._give_corners_to_sides()
        head, runs = QWidget(), QWidget(window)
        window.setMenuWidget(head)
        vbox(head, panels.menu, panels.header)
        window.setCentralWidget(panels.scroll)
        self._cover(panels.scroll, panels)
        details = panels.details
        self.docks = (
            Dock(window, "devicesDock", tr("Devices"), panels.devices, beside=panels.devices.tick_bar),
            Dock(window, "trainingDock", tr("Training"), panels.setup),
            Dock(window, "runsDock", tr("Runs"), runs),
            Dock(window, "logDock", tr("Log"), details, heading=details.tabs, beside=details.controls),
        )
        # After the dock has its place: what is in a widget is styled again when that moves.
        vbox(runs, panels.machine, panels.run_filter, panels.runs_left, panels.runs, panels.several)
        for dock in self.docks:
            dock.dockLocationChanged.connect(self._set_moved)
            dock.topLevelChanged.connect(self._set_moved)
        panels.devices.resized.connect(self.spread)
        look.changed.connect(self.spread)  # all text may have another size
        window.installEventFilter(self)
        self.reset()

    def _give_corners_to_sides(self) -> None:
        """Let the docks at the sides be as high as the window."""
        for corner, area in (
            (Qt.Corner.TopLeftCorner, Qt.DockWidgetArea.LeftDockWidgetArea),
            (Qt.Corner.BottomLeftCorner, Qt.DockWidgetArea.LeftDockWidgetArea),
            (Qt.Corner.TopRightCorner, Qt.DockWidgetArea.RightDockWidgetArea),
            (Qt.Corner.BottomRightCorner, Qt.DockWidgetArea.RightDockWidgetArea),
        ):
            self._window.setCorner(corner, area)

    def _cover(self, scroll: PlotScroll, panels: MainPanels) -> None:
        """Place what lies over the plots."""
        panels.setup.sheet.cover(scroll)
        for overlay in (
            TopOverlay(panels.failure, scroll, self._window, lambda: panels.plots.first_px, panels.failure.fit),
            CentredOverlay(panels.first_steps, scroll, self._window, lambda: panels.plots.first_px),
        ):
            panels.plots.resized.connect(overlay.place)
        FootOverlay(panels.messages, scroll, self._window, scroll.keep_free)

    def reset(self) -> None:
        """Put every dock in its first place."""
        devices, training, runs, log = self.docks
        for dock in self.docks:
            if dock.isFloating():
                dock.setFloating(False)
        for dock, area in (
            (devices, Qt.DockWidgetArea.LeftDockWidgetArea),
            (runs, Qt.DockWidgetArea.RightDockWidgetArea),
            (log, Qt.DockWidgetArea.BottomDockWidgetArea),
        ):
            self._window.addDockWidget(area, dock)
        self._window.splitDockWidget(devices, training, Qt.Orientation.Vertical)
        if self._is_narrow:
            self._window.tabifyDockWidget(devices, runs)
        for dock in self.docks:
            dock.show()
        devices.raise_()
        self._moved = False
        self._show_titles()
        self.spread()

    def _show_titles(self) -> None:
        """Leave out the title of a dock below a tab that has it."""
        for dock in self.docks:
            dock.show_title(shown=not self._window.tabifiedDockWidgets(dock))

    def spread(self) -> None:
        """Give the docks their shares, unless the user did: the devices what they need, the training the rest."""
        is_narrow = self._window.width() < scaled(NARROW_PX)
        if is_narrow is not self._is_narrow:
            self._is_narrow = is_narrow
            self._header.show_compact(compact=is_narrow)
            if not self._moved:
                self.reset()
                return
        if self._moved:
            return
        devices, training, runs, log = self.docks
        width, height = self._window.width(), self._window.height()
        sides = [
            max(round(SIDE_SHARE * width), scaled(MIN_SIDE_PX)),
            max(round(RUNS_SHARE * width), scaled(MIN_RUNS_PX)),
        ]
        if self._is_narrow:
            self._window.resizeDocks([devices], sides[:1], Qt.Orientation.Horizontal)
        else:
            self._window.resizeDocks([devices, runs], sides, Qt.Orientation.Horizontal)
        self._window.resizeDocks([log], [max(round(LOG_SHARE * height), 100)], Qt.Orientation.Vertical)
        wanted = self._wanted_px
        self._window.resizeDocks([devices, training], [wanted, self._side_px - wanted], Qt.Orientation.Vertical)

    @property
    def _side_px(self) -> int:
        """Height of the devices and the training together."""
        window = self._window
        between = window.style().pixelMetric(QStyle.PixelMetric.PM_DockWidgetSeparatorExtent, None, window)
        head = window.menuWidget()
        return window.height() - (head.sizeHint().height() if head is not None else 0) - MARGIN_PX - between

    @property
    def _wanted_px(self) -> int:
        heading = self.docks[0].frame_px + self._tabs_px
        return heading + self._devices.whole_rows_px(round(DEVICES_SHARE * self._side_px) - heading)

    @property
    def _tabs_px(self) -> int:
        """Height of the tabs above the devices, which a narrow window has, with the pixel between them."""
        tabs = self._window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)
        return max((each.sizeHint().height() + 1 for each in tabs), default=0) if self._is_narrow else 0

    def save(self) -> QByteArray:
        """Return the places of the docks; empty if they are in their first places."""
        return self._window.saveState(LAYOUT_VERSION) if self._moved else QByteArray()

    def restore(self, state: QByteArray) -> None:
        """Restore the places of the docks if possible."""
        self._moved = not state.isEmpty() and self._window.restoreState(state, LAYOUT_VERSION)
        self._show_titles()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the size of the window, and notice when the mouse has moved a border between docks."""
        if event.type() == QEvent.Type.MouseButtonPress and isinstance(event, QMouseEvent):
            # Labels pass their presses on to the window: a border is where there is no widget.
            border = self._window.childAt(event.position().toPoint()) is None
            self._before = self._sizes() if border else []
        elif event.type() == QEvent.Type.MouseButtonRelease and self._before:
            QTimer.singleShot(0, self, self._compare_sizes)  # after the window has handled it
        elif event.type() in {QEvent.Type.Resize, QEvent.Type.Show}:
            self.spread()
        return super().eventFilter(watched, event)

    def _sizes(self) -> list[QSize]:
        return [dock.size() for dock in self.docks]

    def _compare_sizes(self) -> None:
        if self._before and self._sizes() != self._before:
            self._set_moved()
        self._before = []

    def _set_moved(self) -> None:
        self._moved = True
        QTimer.singleShot(0, self, self._show_titles)  # after the window has placed the dock
