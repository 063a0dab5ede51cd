"""The places of the panels in the window: in docks, or over the plots."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QEvent, QObject, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QMouseEvent, QPaintEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QStyle, QTabBar, QTabWidget, QWidget

from core.language import tr
from gui.base.painting import paint_card
from gui.base.text_size import scaled
from gui.base.theme import current_theme, look
from gui.plots.area import PlotScroll
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, named
from gui.window.panels import MainPanels

LAYOUT_VERSION = 1
"""The version of `QMainWindow.saveState`; a state of another version is ignored."""
SIZE, MIN_SIZE = QSize(1480, 900), QSize(880, 460)
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
        self._moved = self._folded = False
        self._header = panels.header
        self._is_narrow = False
        self._before: list[QSize] = []
        """The sizes of the docks when the mouse was pressed on a border; else empty."""
        self._devices, self._plots, self._scroll = panels.devices, panels.plots, panels.scroll
        self._sums = panels.sums
        self._was_machine = True
        self._log_px: dict[bool, int] = {}
        """Heights of the log that the user has chosen: without a run, and with one."""
        window.setMinimumSize(MIN_SIZE)
        window.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        window.setContentsMargins(MARGIN_PX, 0, MARGIN_PX, MARGIN_PX)
        window.setDockOptions(
            QMainWindow.DockOption.AllowNestedDocks
            | QMainWindow.DockOption.AllowTabbedDocks
            | QMainWindow.DockOption.AnimatedDocks
        )
        left, right = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
        for corner in Qt.Corner:  # the docks at the sides are as high as the window
            window.setCorner(corner, left if "Left" in corner.name else right)
        head, runs = QWidget(), QWidget(window)
        window.setMenuWidget(head)
        vbox(head, panels.menu, panels.header)
        window.setCentralWidget(panels.scroll)
        self._cover(panels.scroll, panels)
        details = panels.details
        self.docks = (
            Dock(window, "devicesDock", tr("Devices"), panels.devices, beside=panels.devices.tick_bar),
            Dock(window, "trainingDock", tr("Training"), panels.setup),
            Dock(window, "runsDock", tr("Runs"), runs, beside=panels.faces),
            Dock(window, "logDock", tr("Log"), details, heading=details.tabs, beside=details.controls),
        )
        # After the dock has its place: what is in a widget is styled again when that moves.
        vbox(runs, panels.machine, panels.run_filter, panels.runs_left, panels.runs, panels.several)
        for dock in self.docks:
            dock.dockLocationChanged.connect(self._set_moved)
            dock.topLevelChanged.connect(self._set_moved)
        panels.devices.resized.connect(self.spread)
        panels.plots.machine_changed.connect(self._follow_plots)
        details.wanted.connect(lambda: self.fold_details(False))
        panels.scroll.covered.connect(self.fold_details)
        look.changed.connect(self.spread)  # all text may have another size
        window.installEventFilter(self)
        self.reset()

    def _cover(self, scroll: PlotScroll, panels: MainPanels) -> None:
        """Place what lies over the plots."""
        failure, messages, plots = panels.failure, panels.messages, panels.plots

        def below_heading(width: int) -> tuple[int, int, int]:
            """Lie below the heading of the first plot, or over the heading too where there is no room."""
            down, room = LINES_BELOW_TOP * failure.fontMetrics().lineSpacing() + OVERLAY_MARGIN_PX, plots.first_px
            failure.fit(width, room - 2 * EDGE_PX)
            height = _height_of(failure, width)
            return (down if height <= room - down else EDGE_PX), width, height

        def at_the_foot(width: int) -> tuple[int, int, int]:
            """Lie at the foot of the plots, which leave this room free, so that nothing is covered."""
            height = _height_of(messages, width)
            scroll.keep_free(height)
            return max(scroll.height() - height, 0), width, height

        panels.setup.sheet.cover(scroll)
        plots.resized.connect(Overlay(failure, scroll, self._window, below_heading).place)
        Overlay(messages, scroll, self._window, at_the_foot, hidden=lambda: scroll.keep_free(0))

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
            dock.setHidden(self._folded and dock is log)
        devices.raise_()
        self._moved, self._before = False, []
        self._show_titles()
        self.spread()

    def fold_details(self, folded: bool) -> None:
        """Leave out the tabs of one run, unless the user has detached them, while several runs are shown."""
        log, self._folded = self.docks[-1], folded
        log.setHidden(folded and not log.isFloating())

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
        if self._moved or self._before:
            return
        devices, training, runs, log = self.docks
        width = self._window.width()
        sides = [
            max(round(SIDE_SHARE * width), scaled(MIN_SIDE_PX)),
            max(round(RUNS_SHARE * width), scaled(MIN_RUNS_PX)),
        ]
        if self._is_narrow:
            self._window.resizeDocks([devices], sides[:1], Qt.Orientation.Horizontal)
        else:
            self._window.resizeDocks([devices, runs], sides, Qt.Orientation.Horizontal)
        self._window.resizeDocks([log], [self._log_wanted_px], Qt.Orientation.Vertical)
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
    def _log_wanted_px(self) -> int:
        """Height of the log: its share; without a run, all that the plots of the machine leave."""
        share = max(round(LOG_SHARE * self._window.height()), 100)
        return max(self._side_px - self._scroll.page.sizeHint().height(), share) if self._was_machine else share

    def _follow_plots(self) -> None:
        """Give the log its height beside other plots; if the user moved docks, the one that it had beside them."""
        self._sums.setVisible(self._plots.shows_machine)
        log, was, self._was_machine = self.docks[-1], self._was_machine, self._plots.shows_machine
        is_below = self._window.dockWidgetArea(log) is Qt.DockWidgetArea.BottomDockWidgetArea
        if self._moved and self._was_machine is not was and is_below:
            self._log_px[was] = log.height()
            height = self._log_px.get(self._was_machine, self._log_wanted_px)
            self._window.resizeDocks([log], [height], Qt.Orientation.Vertical)
        self.spread()

    @property
    def _wanted_px(self) -> int:
        heading = self.docks[0].frame_px + self._tabs_px
        room = min(round(DEVICES_SHARE * self._side_px), self._side_px - self.docks[1].minimumSizeHint().height())
        return heading + self._devices.whole_rows_px(room - heading)

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
        self.fold_details(self._folded)  # it may have been saved during a comparison
        self._show_titles()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the size of the window, and notice when the mouse has moved a border between docks."""
        if event.type() == QEvent.Type.MouseButtonPress and isinstance(event, QMouseEvent):
            # Labels pass their presses on to the window: a border is where there is no widget.
            border = self._window.childAt(event.position().toPoint()) is None
            self._before = self._sizes() if border and event.button() == Qt.MouseButton.LeftButton else []
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
        self.spread()  # which waited for the mouse

    def _set_moved(self) -> None:
        self._moved = True
        QTimer.singleShot(0, self, self._show_titles)  # after the window has placed the dock


BELOW_PX = 6
"""Room between the content and the lower border of the card."""


class Dock(QDockWidget):
    """Can be moved, stacked and, by a double click, detached; cannot be closed."""

    def __init__(
        self,
        window: QMainWindow,
        name: str,
        title: str,
        content: QWidget,
        *,
        heading: QWidget | None = None,
        beside: QWidget | None = None,
    ) -> None:
        """`heading`: a widget in place of the title, such as tabs; `beside`: one at the right end of the title."""
        super().__init__(title, window)
        self.setObjectName(name)
        self.setFeatures(
            QDockWidget.DockWidgetFeature.DockWidgetMovable | QDockWidget.DockWidgetFeature.DockWidgetFloatable
        )
        self.setAllowedAreas(Qt.DockWidgetArea.AllDockWidgetAreas)
        self._is_titled = heading is None
        self._heading = heading or named(PlainLabel(title.upper(), role="title"), line="card")
        left, above, below = (14, 8, 4) if self._is_titled else (8, 2, 0)
        right = 14 if beside is None else 6  # flat buttons have room around their text
        parts = (self._heading, 0, *(() if beside is None else (beside,)))  # 0: drag the dock here
        hbox(bar := QWidget(), *parts, gap=6, margins=(left, above, right, below))
        self.setTitleBarWidget(bar)
        # The content comes last: Qt styles all that is in a widget again each time the widget gets another parent.
        inside = QWidget()
        self.setWidget(inside)
        vbox(inside, content, margins=(6, 0, 6, BELOW_PX))

    @property
    def frame_px(self) -> int:
        """Height of everything but the content."""
        return self.titleBarWidget().sizeHint().height() + BELOW_PX

    def show_title(self, *, shown: bool) -> None:
        """Show the title in the heading, or leave it to the tab above the dock."""
        if self._is_titled:
            self._heading.setVisible(shown)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the card behind heading and content."""
        paint_card(self, current_theme().panel, current_theme().panel_border)


OVERLAY_MARGIN_PX = 12
EDGE_PX = 3
"""Distance of a widget that covers a heading from the edge above it."""
LINES_BELOW_TOP = 2
"""Lines of text to leave free above a widget at the top: the heading of what it covers."""
MAX_LETTERS = 110
"""Maximum width of the widget above, in average letters: longer lines are hard to read."""


Placing = Callable[[int], tuple[int, int, int]]
"""Returns, for the greatest width of a widget, its distance from the top of the ground, its width and its height."""


class Overlay(QObject):
    """Places `above` over `ground`; both are in the same window. The owner of `above` shows and hides it."""

    def __init__(
        self, above: QWidget, ground: QWidget, window: QWidget, placing: Placing,
        hidden: Callable[[], object] = lambda: None,
    ) -> None:
        """Make `above` a child of the window. `hidden`: called when it is hidden."""
        super().__init__(above)
        self._above, self._ground, self._window = above, ground, window
        self._placing, self._hidden = placing, hidden
        is_hidden = above.isHidden()
        above.setParent(window)
        above.setHidden(is_hidden)
        for widget in (above, ground):
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the ground, and the size that the content needs."""
        if event.type() in _MOVES.get(watched is self._above, ()):
            self.place()
        elif watched is self._above and event.type() == QEvent.Type.Hide and self._above.isHidden():
            self._hidden()  # not if it was hidden with its window, which may be on its way out
        return False

    def place(self) -> None:
        """Place the widget: as wide as it may be, as high as it must be."""
        above, ground = self._above, self._ground
        if above.isHidden():
            self._hidden()
            return
        letters_px = MAX_LETTERS * above.fontMetrics().averageCharWidth()
        down, width, height = self._placing(min(ground.width() - 2 * OVERLAY_MARGIN_PX, letters_px))
        top = ground.mapTo(self._window, QPoint(0, 0))
        self._raise()
        above.setGeometry(top.x() + (ground.width() - width) // 2, top.y() + down, width, height)

    def _raise(self) -> None:
        """Put the widget in front of the ground if it is behind. What lies over both stays there."""
        card = self._ground
        while (parent := card.parentWidget()) is not None and parent is not self._window:
            card = parent
        order = self._window.children()  # from the back to the front
        if card in order and order.index(self._above) < order.index(card):
            self._above.raise_()


def _height_of(widget: QWidget, width: int) -> int:
    """Return the height that a widget needs."""
    layout = widget.layout()
    if layout is not None and layout.hasHeightForWidth():
        return layout.totalHeightForWidth(width)
    return widget.sizeHint().height()


_MOVES = {
    False: (QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Show, QEvent.Type.ZOrderChange),
    True: (QEvent.Type.LayoutRequest, QEvent.Type.Show, QEvent.Type.FontChange, QEvent.Type.StyleChange),
}
"""Events of the widget above, and of the ground, after which it is placed again."""
