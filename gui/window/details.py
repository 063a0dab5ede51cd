"""The tabs about a run: events, log, memory, processes, settings, its output files, and the traceback of its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPlainTextEdit, QStackedWidget, QTabBar

from core.language import tr
from core.runs.outputs import Outputs
from gui.features.log.page import LogPage
from gui.features.memory.processes import ProcessesTab
from gui.features.memory.tab import MemoryTab
from gui.features.run.events import EventList
from gui.features.run.outputs import OutputsTab
from gui.features.run.settings import SettingsView
from gui.widgets.fields import row_of
from gui.widgets.plain_text import verbatim

EVENTS_TAB, LOG_TAB, MEMORY_TAB, PROCESSES_TAB, SETTINGS_TAB, OUTPUTS_TAB, ERROR_TAB = range(7)
TAB_NAMES = ("events", "log", "memory", "processes", "settings", "outputs", "error")
"""What the settings file calls the tabs."""
CHOICES = TAB_NAMES[:OUTPUTS_TAB]
"""The tabs that every run has."""
RECIPE, SCRIPT = "recipe", "script"
FIRST_TABS = {RECIPE: EVENTS_TAB, SCRIPT: LOG_TAB}
"""The tab that is shown first, by the kind of run: a script prints, and a recipe mostly does not."""


class DetailTabs(QStackedWidget):
    """The pages. `tabs` and `controls` are laid out in the heading of the card."""

    def __init__(self) -> None:
        super().__init__()
        self.events = EventList()
        self.log = LogPage()
        self.memory = MemoryTab()
        self.processes = ProcessesTab()
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
        ):
            self.tabs.setTabToolTip(self.tabs.addTab(title), verbatim(title))  # which may be elided
            self.addWidget(page)
        self.tabs.setTabVisible(ERROR_TAB, False)
        self.tabs.setTabVisible(OUTPUTS_TAB, False)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideRight)
        self.tabs.setProperty("tight", True)
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
        self.controls = row_of(self.events.controls, self.log.controls, self.settings.controls)
        """The controls of the page that is shown."""

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
        self.processes.choose_device(device)

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
