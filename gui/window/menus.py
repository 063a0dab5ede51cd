"""The menu bar, what its entries do, and the way through the window by keyboard: Tab, and F6 from card to card."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QDockWidget,
    QLayout,
    QMainWindow,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QScrollArea,
    QSplitter,
    QWidget,
)

from core.language import tr, tr_noop
from gui.runs.actions import ACTIONS, ActionState, is_table, obstacles, table_obstacles
from gui.widgets.dialogs import FileDialog, python_files, script_files
from gui.widgets.layouts import Watch
from gui.widgets.plain_text import menu_text

if TYPE_CHECKING:
    from gui.window.features import Services
    from gui.window.layout import DockLayout
    from gui.window.panels import MainPanels


TAB_KEYS = 9
"""Tabs that have a key: Ctrl+1 to Ctrl+9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An action of a menu."""

    name: str
    """Its object name, without `Action`."""
    text: str
    keys: str = ""
    checkable: bool = False


FILE = (
    Entry(name="openRecipe", text=tr_noop("Open &recipe…"), keys="Ctrl+O"),
    Entry(name="openScript", text=tr_noop("Open &script…"), keys="Ctrl+Shift+O"),
    Entry(name="copyRecipe", text=tr_noop("Copy &workload as a recipe…")),
)
EXPORT = (
    (Entry(name="pictures", text=tr_noop("Save picture of the plots…")),),
    (
        Entry(name="exportComparison", text=tr_noop("Export comparison…")),
        Entry(name="exportScaling", text=tr_noop("Export scaling table…")),
    ),
    (
        Entry(name="runTable", text=tr_noop("Export table of runs…")),
        Entry(name="listReport", text=tr_noop("Export report on the listed runs…")),
    ),
)
"""Of the shown run, of several runs, of the list."""
LEAVE = (
    Entry(name="hosts", text=tr_noop("&Hosts…")),
    Entry(name="preferences", text=tr_noop("Pre&ferences…"), keys="Ctrl+,"),
    Entry(name="close", text=tr_noop("&Close window"), keys="Ctrl+W"),
    Entry(name="quit", text=tr_noop("&Quit"), keys="Ctrl+Q"),
)
RUN = (Entry(name="addToQueue", text=tr_noop("Add to &queue"), keys="Ctrl+Shift+Return"),)
VIEW = (
    Entry(name="machine", text=tr_noop("This &machine")),
    Entry(name="larger", text=tr_noop("&Larger text"), keys="Ctrl++"),
    Entry(name="smaller", text=tr_noop("&Smaller text"), keys="Ctrl+-"),
    Entry(name="normalSize", text=tr_noop("&Normal text"), keys="Ctrl+0"),
    Entry(name="tableOfRuns", text=tr_noop("Runs as a &table"), keys="Ctrl+T", checkable=True),
    Entry(name="compare", text=tr_noop("&Compare ticked runs"), keys="Ctrl+K"),
    Entry(name="nextCard", text=tr_noop("Ne&xt part"), keys="F6"),
    Entry(name="previousCard", text=tr_noop("Pre&vious part"), keys="Shift+F6"),
    Entry(name="find", text=tr_noop("&Find…"), keys="Ctrl+F"),
    Entry(name="resetLayout", text=tr_noop("&Reset layout")),
    Entry(name="fullScreen", text=tr_noop("&Full screen"), keys="F11", checkable=True),
)
TOOLS = (
    Entry(name="scaling", text=tr_noop("&Measure scaling…")),
    Entry(name="restoreRun", text=tr_noop("&Restore deleted run")),
    Entry(name="leftovers", text=tr_noop("&Find processes left over")),
    Entry(name="processes", text=tr_noop("&Processes on the devices")),
)
HELP = (
    Entry(name="documents", text=tr_noop("&Documentation"), keys="F1"),
    Entry(name="keys", text=tr_noop("&Keys"), keys="Ctrl+?"),
    Entry(name="checkMachine", text=tr_noop("C&heck this machine…")),
    Entry(name="report", text=tr_noop("&Copy report")),
    Entry(name="about", text=tr_noop("&About Trainyard")),
)


class MenuBar(QMenuBar):
    """Five menus. An action that stands for a button presses it, and is enabled exactly when the button is."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("menuBar")
        self.setNativeMenuBar(False)  # it is inside the window's own heading
        self.setAccessibleName(tr("Menu"))
        self._actions: dict[str, QAction] = {}
        self.file, self.run, self.view, self.tools, self.help = (
            self._menu(name, text)
            for name, text in (
                ("fileMenu", tr("&File")), ("runMenuBar", tr("&Run")), ("viewMenu", tr("&View")),
                ("toolsMenu", tr("&Tools")), ("helpMenu", tr("&Help")),
            )
        )
        self._add(self.file, FILE)
        self.export_separator = self.file.addSeparator()
        self.export = QMenu(tr("&Export"), self)
        self.export.setObjectName("exportMenu")
        self.export.setToolTipsVisible(True)
        self.file.addAction(self.export.menuAction())
        for number, entries in enumerate(EXPORT):
            if number:
                self.export.addSeparator()
            self._add(self.export, entries)
        self.file.addSeparator()
        self._add(self.file, LEAVE)
        self.tabs = [self._action(Entry(name=f"tab{n}", text="", keys=f"Ctrl+{n}")) for n in range(1, TAB_KEYS + 1)]
        self.view.addActions(self.tabs)
        self.tabs_separator = self.view.addSeparator()
        for entry in RUN:
            self._action(entry).setVisible(False)
        self._add(self.view, VIEW)
        self._add(self.tools, TOOLS)
        self._add(self.help, HELP)

    def action(self, name: str) -> QAction:
        """Return an action by its name."""
        return self._actions[name]

    def provide(self, **actions: Callable[[], object]) -> None:
        """Set what entries do, by their names. An entry that no feature provides is not shown."""
        for name, do in actions.items():
            self._actions[name].triggered.connect(lambda _, do=do: do())
            self._actions[name].setVisible(True)

    def add_choice(self, name: str, text: str, values: Mapping[str, str], choose: Callable[[str], object]) -> QMenu:
        """Add a submenu to View with values and their titles, one of which is ticked; `choose` is called with it."""
        menu = QMenu(text, self)
        menu.setObjectName(f"{name}Menu")
        group = QActionGroup(menu)
        for value, title in values.items():
            action = QAction(menu_text(tr(title)), group)
            action.setData(value)
            action.setCheckable(True)
        menu.addActions(group.actions())
        group.triggered.connect(lambda action: choose(action.data()))
        self.view.insertMenu(self.action("larger"), menu)
        return menu

    def add_button(self, name: str, button: QAbstractButton, text: str = "") -> None:
        """Add an action to the menu Run that presses a button; without a text, it has that of the button."""
        action = self._action(Entry(name=name, text=text or button.text()))
        action.triggered.connect(button.click)
        action.setEnabled(button.isEnabled())
        Watch(button, button, {QEvent.Type.EnabledChange}, lambda: action.setEnabled(button.isEnabled()))

        def describe() -> None:
            # The key belongs to the button: two owners of one key would make Qt press neither.
            keys = button.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            action.setText(menu_text(text or button.text()) + (f"\t{keys}" if keys else ""))

        describe()
        self.run.aboutToShow.connect(describe)
        self.run.addAction(action)

    def show_tabs(self, titles: Sequence[str]) -> None:
        """Name the tabs that can be seen now."""
        for number, action in enumerate(self.tabs):
            action.setVisible(number < len(titles))
            action.setText(menu_text(titles[number]) if number < len(titles) else "")

    def _menu(self, name: str, text: str) -> QMenu:
        menu = QMenu(text, self)  # made here, not by Qt: see `add_action`
        self.addMenu(menu)
        menu.setObjectName(name)
        menu.setToolTipsVisible(True)
        return menu

    def _add(self, menu: QMenu, entries: Sequence[Entry]) -> None:
        menu.addActions([self._action(entry) for entry in entries])
        for entry in entries:
            self._actions[entry.name].setVisible(False)  # until it is provided

    def _action(self, entry: Entry) -> QAction:
        action = QAction(tr(entry.text), self)
        action.setObjectName(f"{entry.name}Action")
        action.setCheckable(entry.checkable)
        if entry.keys:
            action.setShortcut(QKeySequence(entry.keys))
        self._actions[entry.name] = action
        return action


EXPORTS = [row.name for row in ACTIONS if row.section == "exports"]
"""Actions of a run that are in the menu File."""


class MenuController(QObject):
    """Keeps nothing: the panels and the window have the state, and the menus are brought up to date as they open."""

    def __init__(self, window: QMainWindow, panels: MainPanels, services: Services, layout: DockLayout) -> None:
        super().__init__(window)
        self._window, self._panels = window, panels
        self._run_list, self._machine = services.run_list, services.machine
        panels.actions.judge(self._judge)
        self._fill()
        shown = panels.header.again.run_menu  # its keys work while it is closed
        for changed in (services.run_list.changed, services.session.attached, panels.menu.run.aboutToShow):
            changed.connect(shown.refresh)
        menu = panels.menu
        menu.provide(
            openRecipe=lambda: self._choose_file(tr("Open a recipe"), panels.setup.open_recipe, python_files()),
            openScript=lambda: self._choose_file(tr("Open a script"), panels.setup.open_script, script_files()),
            close=window.close, quit=window.close, resetLayout=layout.reset, fullScreen=self._toggle_full_screen,
        )
        for number, tab in enumerate(menu.tabs):
            tab.triggered.connect(lambda _, number=number: self._raise_tab(number))
        menu.view.aboutToShow.connect(self._show_view)
        self._show_view()

    def _fill(self) -> None:
        """Add the actions that other panels have."""
        menu, buttons = self._panels.menu, self._panels.header.buttons
        presets = self._panels.setup.presets.menu().menuAction()
        presets.setText(tr("&Presets"))
        menu.file.insertAction(menu.export_separator, presets)
        menu.add_button("start", buttons.start)
        menu.run.addAction(menu.action("addToQueue"))
        menu.add_button("pause", buttons.pause)
        menu.add_button("stop", buttons.stop)
        menu.add_button("save", buttons.save, tr("Save checkpoint"))
        menu.add_button("allSettings", self._panels.setup.all_settings)
        menu.run.addSeparator()
        of_run = self._panels.header.again.run_menu
        exports = [of_run.action(name) for name in EXPORTS]
        menu.run.addActions([each for each in of_run.actions() if each not in exports])
        menu.export.insertActions(menu.action("pictures"), exports)
        menu.view.insertSeparator(menu.tabs_separator)
        menu.view.insertAction(menu.tabs_separator, self._panels.plots.optional_menu.menuAction())

    def _judge(self, run_dir: str, states: Mapping[str, ActionState]) -> None:
        found = table_obstacles() if is_table(run_dir) else obstacles(self._run_list.summary(run_dir))
        for name, why_not in {**found, **self._machine.obstacles(Path(run_dir))}.items():
            states[name].why_not = why_not

    def _choose_file(self, title: str, use: Callable[[Path], None], names: str) -> None:
        dialog = FileDialog(self._window, title, lambda path: use(Path(path)), names=names)
        dialog.setObjectName("openDialog")
        dialog.open()

    def _toggle_full_screen(self) -> None:
        # The other states stay, so that a maximised window is maximised again afterwards.
        self._window.setWindowState(self._window.windowState() ^ Qt.WindowState.WindowFullScreen)
        self._show_view()

    def _show_view(self) -> None:
        tabs = self._panels.details.tabs
        self._panels.menu.show_tabs([tabs.tabText(tab) for tab in self._visible_tabs()])
        self._panels.menu.action("fullScreen").setChecked(self._window.isFullScreen())

    def _visible_tabs(self) -> list[int]:
        tabs = self._panels.details.tabs
        return [tab for tab in range(tabs.count()) if tabs.isTabVisible(tab)]

    def _raise_tab(self, number: int) -> None:
        visible = self._visible_tabs()
        if number < len(visible):
            self._panels.details.wanted.emit()
            self._panels.details.tabs.setCurrentIndex(visible[number])
            page = self._panels.details.currentWidget()
            if page is not None:
                page.setFocus()


class CardNavigation(QObject):
    """Keeps the cards in visual order: header, devices, training, plots with what covers them, tabs, runs."""

    def __init__(self, window: QMainWindow, panels: MainPanels, layout: DockLayout) -> None:
        super().__init__(window)
        self._window, self._panels = window, panels
        devices, training, runs, details = layout.docks
        plots = window.centralWidget()
        assert plots is not None
        self._cards: tuple[QWidget, ...] = (
            panels.header, devices, training, panels.setup.sheet, panels.failure, plots,
            panels.messages, details, runs,
        )
        self._last: dict[QWidget, QWidget] = {}
        """By card, what had the focus in it when F6 left it."""
        panels.menu.provide(nextCard=lambda: self.go(1), previousCard=lambda: self.go(-1), find=self.find)
        # When all is in its place:
        panels.scroll.covered.connect(lambda _: QTimer.singleShot(0, self, self.order_tabs))
        panels.plots.shown_on_request.connect(lambda _: self.order_tabs())
        panels.setup.sheet.opened.connect(self.order_tabs)  # another workload has other fields

    def order_tabs(self) -> None:
        """Let Tab follow the visual order. Call again after widgets were added."""
        stops = [each for card in self._cards for each in _in_order(card) if _takes_focus(each)]
        for one, other in pairwise(stops):
            QWidget.setTabOrder(one, other)

    def go(self, step: int) -> None:
        """Give the focus to the next card (`step` 1) or the previous one (-1): to what had it there, or to its list."""
        focus = QApplication.focusWidget()
        now = self._card_of(focus)
        if now is not None and focus is not None:
            self._last[now] = focus
        start = self._cards.index(now) if now is not None else (-1 if step > 0 else 0)
        for distance in range(1, len(self._cards) + 1):
            card = self._cards[(start + step * distance) % len(self._cards)]
            target = self._target(card)
            if target is not None:
                if isinstance(card, QDockWidget):
                    card.raise_()  # it may be behind another one
                target.setFocus(Qt.FocusReason.TabFocusReason)
                return

    def find(self) -> None:
        """Search in the card that has the focus: the settings while their sheet is open, the runs, else the log.

        Without a run there is no log.
        """
        sheet, details, runs = self._panels.setup.sheet, self._panels.details, self._panels.run_filter
        in_runs = self._panels.faces.table.isChecked() or self._card_of(QApplication.focusWidget()) is self._cards[-1]
        if sheet.isVisible():
            sheet.search.setFocus()
            sheet.search.selectAll()
        elif details.has_log and (runs.isHidden() or not in_runs):
            details.open_search()
        else:
            runs.setFocus()
            runs.selectAll()

    def _card_of(self, widget: QWidget | None) -> QWidget | None:
        return next((each for each in self._cards if widget is not None and each.isAncestorOf(widget)), None)

    def _target(self, card: QWidget) -> QWidget | None:
        """Return what shall have the focus in a card; None if the card is hidden or nothing in it can have it."""
        if card.isHidden():
            return None
        shown = [each for each in _in_order(card) if _takes_focus(each) and each.isVisibleTo(card) and each.isEnabled()]
        last = self._last.get(card)
        if last in shown:
            return last
        lists = [each for each in shown if _is_list(each)]
        return next(iter(lists or shown), None)


def next_stop(window: QWidget, *, forward: bool) -> QWidget | None:
    """Return the widget that Tab leads to from the one that has the focus, also beyond the last one.

    Qt's own search starts again in the middle of the window once it has passed the last widget.
    """
    begin = window.focusWidget() or window
    at = begin.nextInFocusChain() if forward else begin.previousInFocusChain()
    while at is not None and at is not begin:
        if _takes_focus(at) and at.isVisibleTo(window) and at.isEnabled():
            return at
        at = at.nextInFocusChain() if forward else at.previousInFocusChain()
    return None


def _is_list(widget: QWidget) -> bool:
    return isinstance(widget, QAbstractItemView) or (isinstance(widget, QPlainTextEdit) and widget.isReadOnly())


def _takes_focus(widget: QWidget) -> bool:
    takes = bool(widget.focusPolicy().value & Qt.FocusPolicy.TabFocus.value)
    return takes and widget.focusProxy() is None


def _in_order(widget: QWidget) -> Iterator[QWidget]:
    """Return a widget and everything in it, in the order of its layouts, which is the visual order."""
    yield widget
    if isinstance(widget, QAbstractItemView):
        return
    first: list[QWidget | None] = []
    if isinstance(widget, QDockWidget):
        first = [widget.titleBarWidget(), widget.widget()]
    elif isinstance(widget, QSplitter):
        first = [widget.widget(number) for number in range(widget.count())]
    elif isinstance(widget, QScrollArea):
        first = [widget.widget()]
    else:
        layout = widget.layout()
        first = list(_in_layout(layout)) if layout is not None else []
    children = [each for each in widget.children() if isinstance(each, QWidget) and not each.isWindow()]
    for child in dict.fromkeys([*(each for each in first if each is not None), *children]):
        yield from _in_order(child)


def _in_layout(layout: QLayout) -> Iterator[QWidget]:
    """Return the widgets of a layout in its order.

    They are not asked for with `itemAt`: PySide keeps the Python object of a `QWidgetItem` after Qt has deleted the
    item, and takes whatever is created at the same address later for that item, until the process crashes.
    """
    parent = layout.parentWidget()
    children = [] if parent is None else parent.children()
    widgets: list[tuple[int, QObject]] = [
        (layout.indexOf(child), child) for child in children if isinstance(child, QWidget)
    ]
    inner: list[tuple[int, QObject]] = [
        (layout.indexOf(child), child) for child in layout.children() if isinstance(child, QLayout)
    ]
    for number, child in sorted([*widgets, *inner], key=lambda pair: pair[0]):
        if isinstance(child, QLayout):
            yield from _in_layout(child)
        elif isinstance(child, QWidget) and number >= 0:
            yield child
