"""The panels of the window, made once: among them the header, and the tabs about the shown run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMainWindow, QPlainTextEdit, QSizePolicy, QStackedWidget, QTabBar, QWidget

from core.language import tr
from core.runs.outputs import Outputs
from gui.base.text_size import scaled
from gui.base.theme import mark
from gui.features.devices.panel import DevicePanel
from gui.features.devices.sums import MachineSums
from gui.features.log.page import LogPage
from gui.features.memory.processes import ProcessesTab
from gui.features.memory.tab import LeftoversStrip, MemoryTab
from gui.features.run.events import EventList, FailureCard
from gui.features.run.head import ProgressLine, RunButtons, StatePill
from gui.features.run.outputs import OutputsTab
from gui.features.run.settings import SettingsView
from gui.features.runlist.bell import MissedButton
from gui.features.runlist.history import MachineEntry, RunFilter, SeveralBar
from gui.features.runlist.menus import RunMenuButton
from gui.features.runlist.table import RunFaces
from gui.features.runlist.view import RunList
from gui.features.setup.panel import SetupPanel
from gui.features.setup.reuse import FirstSteps
from gui.plots.area import PlotArea, PlotScroll
from gui.plots.exports import Exporter
from gui.runs.actions import RunActions
from gui.runs.words import Forcing, RunHeader, run_header
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import row_of
from gui.widgets.layouts import hbox
from gui.widgets.messages import MessageStack, MessageStrip, announce
from gui.widgets.plain_text import PlainLabel, named, title_text, verbatim
from gui.window.menus import MenuBar

if TYPE_CHECKING:
    from gui.features.compare.view import ComparisonView

MIN_NAME_PX = 96
MIN_OWNER_PX = 40
MIN_RELEASED_PX = 160
WIDE_PX = 1200
"""Width from which on there is room for epoch, bar, result and verdict."""
SIGNS = {"tick": "✓ ", "cross": "✕ ", "alert": "⚠ "}
"""What stands before the name in the title of the window, by the mark of a state: its entry in a task bar tells."""


class HeaderPanel(QWidget):
    """One row; `buttons` emits the user's requests."""

    heading_changed = Signal(str)
    """How much of the shown run is done, its name and what makes it different, after a sign if it has finished or
    failed, or is in trouble; the empty string for none."""

    run_ended = Signal()
    """The shown run has finished or failed just now, or its loss has become NaN."""

    def __init__(self, actions: RunActions) -> None:
        super().__init__()
        self.buttons = RunButtons()
        self._state = named(StatePill(), "stateLabel")
        self._name = ElidedLabel(min_px=MIN_NAME_PX, role="heading")
        self._owner = ElidedLabel(min_px=MIN_OWNER_PX, name="ownerLabel")
        mark(self._owner, tone="warn")
        self.what = ElidedLabel(min_px=0, name="descriptionLabel")
        # It gets what the others leave, and at most the width of its text, so that the bar gets the rest.
        self.what.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.progress = ProgressLine()
        self.again = RunMenuButton(actions)
        # It must not push the buttons out of the window.
        self._released = ElidedLabel(min_px=MIN_RELEASED_PX, name="releasedLabel")
        self.missed = MissedButton()
        self.host = PlainLabel(name="hostLabel", role="pill")
        self.host.hide()
        self._shown: RunHeader | None = None
        hbox(
            self, self.buttons, self.again, 8, self._state, 2, self._name, self._owner, (self.what, 1), 8,
            self.progress, self._released, self.host, self.missed, gap=8, margins=(2, 10, 2, 10),
        )
        self.show_header(run_header(None))

    def show_header(self, header: RunHeader) -> None:
        """Show a header."""
        if header == self._shown:
            return
        before = self._shown
        shown = (header.title or header.name, header.mark, header.label)
        if before is None or shown != (before.title or before.name, before.mark, before.label):
            self.heading_changed.emit(f"{SIGNS.get(header.mark, '')}{title_text(shown[0])}")
        is_same = before is not None and header.name == before.name and shown[1:] != (before.mark, before.label)
        if is_same and header.mark in SIGNS:
            self.run_ended.emit()
        self._shown = header
        self._show_state(header)
        self._name.show_text(header.name)
        self._owner.setText(tr("of {owner}", owner=header.owner))
        self._owner.setAccessibleDescription(
            tr("This run belongs to {owner}.", owner=header.owner) if header.owner else ""
        )
        self._owner.setVisible(bool(header.owner))
        self.what.setText(f"· {header.what}" if header.name and header.what else header.what)
        mark(self.what, role="" if header.name else "muted", tone="warn" if header.is_slow else "")
        steady = not header.released
        urgent = header.can_force and header.stopping is Forcing.WORKERS
        self.progress.show_progress(header.epoch, header.fraction, header.detail, urgent=urgent, steady=steady)
        self._show_released(header)
        self._fit()
        self.progress.setToolTip(verbatim(header.saved))
        self.buttons.pause.show_state(header.pause)
        self.buttons.save.show_save(
            can_save=header.can_save, saving=header.saving, saved=header.saved, refusal=header.save_refusal
        )
        can_stop, can_force, queued = header.can_stop, header.can_force, header.is_queued
        self.buttons.show_stop(can_stop=can_stop, can_force=can_force, stopping=header.stopping, is_queued=queued)

    def event(self, event: QEvent) -> bool:
        """Limit the description to the width of its text, whenever the text or its font has changed."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.what.setMaximumWidth(self.what.sizeHint().width())
            self._fit()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show what there is room for."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Leave out epoch and bar where the verdict on the memory, or all others together, need their room."""
        has_verdict = self._shown is not None and bool(self._shown.released)
        self.progress.show_brief(brief=has_verdict and self.width() < scaled(WIDE_PX))
        layout = self.layout()
        assert layout is not None
        others_px = layout.totalMinimumSize().width() - self.progress.minimumSizeHint().width()
        self.progress.show_within(self.width() - others_px)

    def show_host(self, name: str, tone: str, sentence: str) -> None:
        """Name the host whose runs are shown. `tone`: a colour of the theme; `sentence`: on the connection."""
        if (name, tone, sentence) == (self.host.text(), self.host.property("tone"), self.host.accessibleDescription()):
            return
        self.host.setText(name)
        self.host.setAccessibleName(tr("Runs of {host}", host=name))
        self.host.setAccessibleDescription(sentence)
        self.host.setToolTip(verbatim(sentence))
        self.host.show()
        mark(self.host, tone=tone)
        self._fit()

    def show_compact(self, *, compact: bool) -> None:
        """Take less room: the buttons are icons."""
        self.buttons.show_compact(compact=compact)

    def _show_state(self, header: RunHeader) -> None:
        self._state.show_state(header.label, header.mark, header.tone)
        if self._state.toolTip() != verbatim(header.sentence):
            self._state.setToolTip(verbatim(header.sentence))
            self._state.setAccessibleDescription(header.sentence)

    def _show_released(self, header: RunHeader) -> None:
        is_new = header.released != self._released.text()
        self._released.show_text(header.released)
        if is_new:
            self._released.setAccessibleName(tr("Memory after training: {released}", released=header.released))
            announce(self._released, header.released)
        if self._released.property("tone") != header.released_tone:
            mark(self._released, tone=header.released_tone)


EVENTS_TAB, LOG_TAB, MEMORY_TAB, PROCESSES_TAB, SETTINGS_TAB, OUTPUTS_TAB, ERROR_TAB = range(7)
TAB_NAMES = ("events", "log", "memory", "processes", "settings", "outputs", "error")
"""What the settings file calls the tabs."""
CHOICES = TAB_NAMES[:OUTPUTS_TAB]
"""The tabs that every run has."""
OF_RUNS = (EVENTS_TAB, LOG_TAB, SETTINGS_TAB)
"""The tabs that say nothing without a run."""
RECIPE, SCRIPT, MACHINE = "recipe", "script", "machine"
FIRST_TABS = {RECIPE: EVENTS_TAB, SCRIPT: LOG_TAB, MACHINE: PROCESSES_TAB}
"""The tab that is shown first, by the kind of run: a script prints, and a recipe mostly does not; or without a run."""


class DetailTabs(QStackedWidget):
    """The pages. `tabs` and `controls` are laid out in the heading of the card."""

    wanted = Signal()
    """The user asks for a tab, also while a comparison has its room."""

    def __init__(self) -> None:
        super().__init__()
        self.events = EventList()
        self.log = LogPage()
        self.memory = MemoryTab()
        self.processes = ProcessesTab()
        self.settings = SettingsView()
        self.outputs = OutputsTab()
        self.error = named(QPlainTextEdit(), "errorView", tr("Error of the run"))
        self.error.setReadOnly(True)
        self.error.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.tabs = named(QTabBar(), spoken=tr("Events, log, memory, processes, settings"), tight=True)
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
        self._kind = RECIPE
        self._chosen = dict(FIRST_TABS)
        self.tabs.tabBarClicked.connect(self._choose)
        self.tabs.currentChanged.connect(self._on_changed)
        self._shown_by_us = False
        self.log.controls.hide()  # the first tab is another one
        self.settings.controls.hide()
        self.controls = row_of(self.events.controls, self.log.controls, self.settings.controls)
        """The controls of the page that is shown."""

    def show_kind(self, *, is_script: bool | None) -> None:
        """Show the tab that the user last chose for such runs, unless a run of this kind was shown before.

        `is_script`: None without a run.
        """
        kind = MACHINE if is_script is None else SCRIPT if is_script else RECIPE
        if kind != self._kind:
            self._kind = kind
            if kind == MACHINE:
                self._show(self._chosen[kind])  # before hiding others, or Qt would show their neighbours
            for tab in OF_RUNS:
                self.tabs.setTabVisible(tab, kind != MACHINE)
            self._show(self._chosen[kind])
            self.tabs.updateGeometry()

    def remember(self) -> dict[str, Any]:
        """Return the tab that the user chose for each kind of run and what it shows, for the settings file."""
        chosen = {kind: TAB_NAMES[tab] for kind, tab in self._chosen.items()}
        return {**chosen, "epochs": self.events.epochs_box.isChecked()}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore the choices; invalid values are ignored."""
        for kind, first in FIRST_TABS.items():
            if kept.get(kind) in CHOICES:
                tab = TAB_NAMES.index(kept[kind])
                self._chosen[kind] = first if kind == MACHINE and tab in OF_RUNS else tab
        self.events.epochs_box.setChecked(kept.get("epochs") is not False)
        self._show(self._chosen[self._kind])

    def _show(self, tab: int) -> None:
        """Show a tab that the user has not chosen."""
        self._shown_by_us = True
        self.tabs.setCurrentIndex(tab)
        self._shown_by_us = False

    def _on_changed(self, tab: int) -> None:
        self.setCurrentIndex(tab)
        for page, at in ((self.events, EVENTS_TAB), (self.log, LOG_TAB), (self.settings, SETTINGS_TAB)):
            page.controls.setVisible(tab == at)
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
    def has_log(self) -> bool:
        """True if there is a tab Log."""
        return self.tabs.isTabVisible(LOG_TAB)

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
        self.wanted.emit()
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
        self.wanted.emit()
        self.tabs.setCurrentIndex(LOG_TAB)
        self.log.search.open_search()

    def raise_log(self, rank: int, sought: str) -> None:
        """Show the tab Log: of this rank, at the last line that contains a text."""
        self.tabs.setCurrentIndex(LOG_TAB)
        self.log.show_line(rank, sought)


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
        self.alarms = MessageStrip("alarmStrip")
        self.broken = MessageStrip("brokenStrip")
        """Which parts of the window do not work."""
        strips = (self.message, self.run_message, self.leftovers, self.alarms, self.host_message, self.broken)
        self.messages = MessageStack(strips)
        self.devices = DevicePanel()
        self.setup = SetupPanel(window)
        self.machine = MachineEntry()
        self.run_filter = RunFilter()
        self.runs_left = PlainLabel(name="runsLeft", role="small")
        self.runs_left.setIndent(8)
        self.runs_left.hide()
        self.runs = RunList(self.actions)
        self.several = SeveralBar()
        self.faces = RunFaces()
        self.details = DetailTabs()
        self.plots = PlotArea()
        self.sums = MachineSums()
        self.first_steps = FirstSteps()
        self.scroll = PlotScroll(self.plots, self.first_steps, self.sums)
        self.comparison: ComparisonView | None = None
        """The view of several runs; created when it is first opened."""
        self.comparison_choices: Mapping[str, Any] = {}
        """How several runs are drawn, as the settings file has it."""
        self.failure = FailureCard()

    @property
    def window(self) -> QWidget:
        """The window that the panels are in."""
        return self.header.window()
