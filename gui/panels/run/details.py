"""The tabs about a run: events, log, memory, processes, settings, its output files, and the traceback of its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QSizePolicy, QStackedWidget, QTabBar, QWidget

from core.language import tr
from core.runs.outputs import Outputs
from gui.panels.log.log_page import SPACING_PX, LogPage
from gui.panels.memory.memory_tab import MemoryTab
from gui.panels.memory.processes_tab import ProcessesTab
from gui.panels.run.event_list import EventList
from gui.panels.run.outputs_tab import OutputsTab
from gui.panels.run.settings_view import SettingsView
from gui.style.text_size import scaled
from gui.style.theme import Theme, mark

EVENTS_TAB, LOG_TAB, MEMORY_TAB, PROCESSES_TAB, SETTINGS_TAB, OUTPUTS_TAB, ERROR_TAB = range(7)
TAB_NAMES = ("events", "log", "memory", "processes", "settings", "outputs", "error")
"""What the settings file calls the tabs."""
CHOICES = TAB_NAMES[:OUTPUTS_TAB]
"""The tabs that every run has."""
RECIPE, SCRIPT = "recipe", "script"
FIRST_TABS = {RECIPE: EVENTS_TAB, SCRIPT: LOG_TAB}
"""The tab that is shown first, by the kind of run: a script prints, and a recipe mostly does not."""

PADDING_PX, TIGHT_PADDING_PX = 14, 8
"""Room on either side of the text of a tab, as the style sheet has it, and with the property `tight`."""


class DetailTabs(QStackedWidget):
    """The pages. The tab bar is part of `heading`, which is the heading of the card."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.events = EventList(theme)
        self.log = LogPage(theme)
        self.memory = MemoryTab(theme)
        self.processes = ProcessesTab(theme)
        self.settings = SettingsView()
        self.outputs = OutputsTab()
        self.error = QPlainTextEdit()
        self.error.setObjectName("errorView")
        self.error.setAccessibleName(tr("Error of the run"))
        self.error.setReadOnly(True)
        self.error.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.tabs = QTabBar()
        self.tabs.setAccessibleName(tr("Events, log, memory, processes, settings"))
        for title, page in (
            (tr("Events"), self.events), (tr("Log"), self.log), (tr("Memory"), self.memory),
            (tr("Processes"), self.processes), (tr("Settings"), self.settings), (tr("Outputs"), self.outputs),
            (tr("Error"), self.error),
        ):  # fmt: skip
            self.tabs.addTab(title)
            self.addWidget(page)
        self.tabs.setTabVisible(ERROR_TAB, False)
        self.tabs.setTabVisible(OUTPUTS_TAB, False)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(False)  # all tabs must be visible
        self.tabs.currentChanged.connect(self.setCurrentIndex)
        self.tabs.currentChanged.connect(lambda tab: self.log.controls.setVisible(tab == LOG_TAB))
        self.log.controls.hide()  # the first tab is another one
        self.tabs.currentChanged.connect(lambda tab: self.events.controls.setVisible(tab == EVENTS_TAB))
        self._kind = RECIPE
        self._chosen = dict(FIRST_TABS)
        self.tabs.tabBarClicked.connect(self._choose)
        self.tabs.currentChanged.connect(self._on_changed)
        self._shown_by_us = False
        self.tabs.currentChanged.connect(lambda tab: self.settings.controls.setVisible(tab == SETTINGS_TAB))
        self.settings.controls.hide()
        controls = (self.events.controls, self.log.controls, self.settings.controls)
        self.heading = DetailHeading(self.tabs, controls, self.log.search_button)

    def show_kind(self, *, is_script: bool) -> None:
        """Show the tab that the user last chose for such runs, unless a run of this kind was shown before."""
        kind = SCRIPT if is_script else RECIPE
        if kind != self._kind:
            self._kind = kind
            self._show(self._chosen[kind])

    def remember(self) -> dict[str, Any]:
        """Return the tab that the user chose for each kind of run and what it shows, for the settings file."""
        chosen = {kind: TAB_NAMES[tab] for kind, tab in self._chosen.items()}
        return {**chosen, "epochs": self.events.epochs_box.isChecked()}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore the choices; invalid values are ignored."""
        for kind in FIRST_TABS:
            if kept.get(kind) in CHOICES:
                self._chosen[kind] = TAB_NAMES.index(kept[kind])
        self.events.epochs_box.setChecked(kept.get("epochs") is not False)
        self._show(self._chosen[self._kind])

    def _show(self, tab: int) -> None:
        """Show a tab that the user has not chosen."""
        self._shown_by_us = True
        self.tabs.setCurrentIndex(tab)
        self._shown_by_us = False

    def _on_changed(self, tab: int) -> None:
        if self.tabs.hasFocus() and not self._shown_by_us:  # by a key
            self._choose(tab)

    def _choose(self, tab: int) -> None:
        if 0 <= tab < OUTPUTS_TAB:
            self._chosen[self._kind] = tab

    @property
    def shows_processes(self) -> bool:
        """True if a page about processes on the devices is visible."""
        is_visible = self.isVisible() and not self.window().isMinimized()
        return is_visible and self.currentIndex() in {MEMORY_TAB, PROCESSES_TAB}

    @property
    def shows_settings(self) -> bool:
        """True if the tab Settings is chosen."""
        return self.currentIndex() == SETTINGS_TAB

    def raise_memory(self) -> None:
        """Show the tab Memory at what can be tried about memory that was not released."""
        self.tabs.setCurrentIndex(MEMORY_TAB)
        self.memory.scroll_to_remedies()

    def raise_processes(self) -> None:
        """Show the tab Processes."""
        self._show(PROCESSES_TAB)
        self.processes.table.setFocus()

    def show_processes_on(self, device: str) -> None:
        """Show the tab Processes with the first process on a device selected, if there is one."""
        self.raise_processes()
        self.processes.table.choose_device(device)

    def show_error(self, text: str) -> None:
        """Fill the tab Error; the empty string hides it."""
        if text == self.error.toPlainText():
            return
        self.error.setPlainText(text)
        self._show_tab(ERROR_TAB, shown=bool(text))

    def show_outputs(self, outputs: Outputs) -> None:
        """Fill the tab Outputs; without files it is hidden."""
        self.outputs.show_outputs(outputs)
        self._show_tab(OUTPUTS_TAB, shown=bool(outputs.files))

    def _show_tab(self, tab: int, *, shown: bool) -> None:
        """Show or hide a tab that only some runs have."""
        if shown is self.tabs.isTabVisible(tab):
            return
        if not shown and self.currentIndex() == tab:
            self._show(self._chosen[self._kind])  # before hiding the tab, or Qt would show its neighbour
        self.tabs.setTabVisible(tab, shown)
        self.tabs.updateGeometry()  # Qt does not: the heading would keep its old width

    def open_search(self) -> None:
        """Show the tab Log and search in it."""
        self.tabs.setCurrentIndex(LOG_TAB)
        self.log.search.open_search()

    def raise_log(self, rank: int, sought: str) -> None:
        """Show the tab Log: of this rank, at the last line that contains a text."""
        self.tabs.setCurrentIndex(LOG_TAB)
        self.log.show_line(rank, sought)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self.events.set_theme(theme)
        self.log.set_theme(theme)
        self.memory.set_theme(theme)
        self.processes.set_theme(theme)


class DetailHeading(QWidget):
    """The tabs at the left, and at the right the controls of pages, of which one is visible.

    Where there is little room, the tabs become tight. Where that is not enough, a control is hidden, and at last the
    texts of the tabs are elided. So this heading never makes the cards beside it narrower.
    """

    def __init__(self, tabs: QTabBar, controls: Sequence[QWidget], dispensable: QWidget) -> None:
        """`dispensable`: the control that is hidden first; a menu and a key do the same."""
        super().__init__()
        self._tabs, self._controls, self._dispensable = tabs, controls, dispensable
        grows = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        grows.setHorizontalStretch(100)
        self.setSizePolicy(grows)
        tabs.setElideMode(Qt.TextElideMode.ElideRight)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addWidget(tabs)
        self._row.addStretch(1)
        for each in controls:
            self._row.addWidget(each)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Adapt to the width."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Adapt to other tabs and other controls."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return done

    def _fit(self) -> None:
        shown = [each for each in self._controls if not each.isHidden()]
        needed = sum(each.sizeHint().width() for each in shown) + self._row.spacing() * (len(shown) + 1)
        spare = 0
        if self._dispensable.parentWidget() in shown:
            spare = self._dispensable.sizeHint().width() + SPACING_PX
        if not self._dispensable.isHidden():
            needed -= spare
        gain = 2 * scaled(PADDING_PX - TIGHT_PADDING_PX) * sum(map(self._tabs.isTabVisible, range(self._tabs.count())))
        is_tight = self._tabs.property("tight") is True
        tabs = self._tabs.sizeHint().width() - (0 if is_tight else gain)
        room = self.width() - tabs - needed  # with tight tabs, and without what is dispensable
        if (tight := room < gain + spare) is not is_tight:
            mark(self._tabs, tight=tight)
            self._tabs.updateGeometry()
        if (hidden := room < spare) is not self._dispensable.isHidden():
            self._dispensable.setHidden(hidden)
