"""The features of the window, one row each, and what they share."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from core.language import join_sentences, tr, tr_noop
from core.text import join_names
from gui.base.preferences import PreferencesFile
from gui.base.timers import PollTimer
from gui.features.check.controller import CheckController
from gui.features.compare.controller import ComparisonController
from gui.features.compare.scaling import ScalingController
from gui.features.compare.scaling_tables import ScalingTables
from gui.features.devices.panel import DeviceController
from gui.features.help.controller import HelpController
from gui.features.hosts import HostController, HostListController
from gui.features.log.page import TeachController
from gui.features.memory.processes import MemoryController
from gui.features.memory.scanner import ProcessScanner
from gui.features.preferences.preferences import PreferencesController
from gui.features.run.controller import RunController
from gui.features.run.live import LiveController
from gui.features.run.outputs import OutputController
from gui.features.runlist.bell import MissedController
from gui.features.runlist.history import HistoryController, QueueController
from gui.features.runlist.run_files import ExportController, RemovalController
from gui.features.runlist.table import RunTableController
from gui.features.setup.script_form import ScriptSearchController
from gui.features.setup.start import StartController
from gui.machine.machine import Machine
from gui.machine.monitor import DeviceMonitor, HostMonitor
from gui.runs.run_list import QueueService, RunListService
from gui.runs.session import RunSession
from gui.window.feature import Feature

if TYPE_CHECKING:
    from core.devices.device import Device
    from gui.widgets.messages import MessageStrip
    from gui.window.panels import MainPanels

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Value = TypeVar("Value")
Service = TypeVar("Service", bound=QObject)


class Observable(QObject, Generic[Value]):
    """A value that a feature sets and others follow."""

    changed = Signal(object)
    """The new value."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value

    def set(self, value: Value) -> None:
        """Set the value; say so if it is another one."""
        if value != self.value:
            self.value = value
            self.changed.emit(value)


class Services:
    """Everything that works in the background of a window on the runs of a machine, and what features tell others."""

    def __init__(
        self, machine: Machine, window: QObject, preferences: PreferencesFile, monitor: DeviceMonitor | None = None
    ) -> None:
        """`monitor`: that of the window whose place this one takes; it goes on. None for another one."""
        self.machine = machine
        self.preferences = preferences
        self.poll_timer = PollTimer(window)
        self.device_monitor = monitor or DeviceMonitor(machine.sampler(), HostMonitor(is_here=machine.is_here))
        self.run_list = RunListService(machine.root)
        self.queue = QueueService(self.run_list, is_here=machine.is_here)
        self.session = RunSession(machine.request)
        self.scaling_tables = ScalingTables(self.run_list)
        self.process_scanner = ProcessScanner(self.device_monitor, self.run_list, self.session, is_here=machine.is_here)
        self.devices = Observable[tuple["Device", ...]](())
        """The devices of all machines that are shown."""
        self.chosen = Observable[tuple["Device", ...]](())
        """The ticked devices."""
        self.compared = Observable[tuple[str, ...]](())
        """The directories of the runs that are compared; none while the window shows one run, or the machine."""
        self.connected = Observable(machine.is_here)
        """Whether there is a connection to the machine."""
        self.language = Observable(preferences.preferences.language)
        """The preferred language."""
        self.last_error = ""
        """The traceback of the last error in the window, for the report about it."""
        # Qt deletes them with the window. If Python's garbage collector deleted a QObject while Qt holds the lock that
        # the deletion needs, the two would wait for each other for ever.
        for each in vars(self).values():
            if isinstance(each, QObject):
                each.setParent(window)
        self.window = window

    def adopt(self, service: Service) -> Service:
        """Have Qt delete what one feature alone works with, as it deletes the others; return it."""
        service.setParent(self.window)
        return service


def _host(panels: MainPanels, services: Services) -> Feature | None:
    """Return what shows the connection to a host; None for a window on this machine."""
    return None if services.machine.is_here else HostController(panels, services)


@dataclass(frozen=True, slots=True)
class Row:
    """A feature."""

    name: str
    title: str
    """What users call it."""
    make: Callable[[MainPanels, Services], Feature | None]
    """Makes it; returns None if this window does not need it."""


FEATURES = (
    Row("missed", tr_noop("Runs that you missed"), MissedController),
    Row("host", tr_noop("Connection"), _host),
    # Carries over the shown run, before others carry over what is shown of it.
    Row("run", tr_noop("Run"), RunController),
    Row("start", tr_noop("Training"), StartController),
    Row("script_search", tr_noop("Search for Python"), ScriptSearchController),
    Row("export", tr_noop("Export"), ExportController),
    Row("scaling", tr_noop("Scaling tables"), ScalingController),
    Row("history", tr_noop("Runs"), HistoryController),
    Row("queue", tr_noop("Queue"), QueueController),
    Row("removal", tr_noop("Deleting runs"), RemovalController),
    Row("log", tr_noop("Log"), TeachController),
    Row("memory", tr_noop("Memory"), MemoryController),
    Row("devices", tr_noop("Devices"), DeviceController),
    Row("host_list", tr_noop("Hosts"), HostListController),
    Row("help", tr_noop("Help"), HelpController),
    Row("check", tr_noop("Check of this machine"), CheckController),
    Row("live", tr_noop("Settings and traces of a run that trains"), LiveController),
    Row("outputs", tr_noop("Outputs"), OutputController),
    Row("table", tr_noop("Table of runs"), RunTableController),
    # Carries over a comparison after the ticks of the list. Escape leaves it before the run: see `Features.leave`.
    Row("comparison", tr_noop("Comparison"), ComparisonController),
    # Says last what is wrong with the settings, so that the message is seen.
    Row("preferences", tr_noop("Preferences"), PreferencesController),
)
"""In the order in which they are made, and in which their hooks are called."""
MAX_ERROR = 20_000
"""Characters of an error that the report keeps: its end, which says most."""


class Features:
    """The features of one window. If one of them fails, its name is shown, and the others go on."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        self._panels, self._services = panels, services
        self.failures: dict[tuple[object, ...], Exception] = {}
        """What has failed, by title, kind of the error and line of the source: a poll may fail four times a second."""
        self._made: dict[Row, Feature] = {}
        self._hooks: dict[str, list[tuple[Row, Callable[[], object]]]] = {}
        for row in FEATURES:
            feature = self.attempt(row.title, partial(row.make, panels, services))
            if feature is not None:
                self._made[row] = feature
        self.named = SimpleNamespace(**{row.name: feature for row, feature in self._made.items()})

    def call(self, hook: str) -> None:
        """Call a hook of the features that have one of their own."""
        if hook not in self._hooks:
            self._hooks[hook] = [
                (row, getattr(feature, hook)) for row, feature in self._made.items()
                if getattr(type(feature), hook) is not getattr(Feature, hook)
            ]
        for row, do in self._hooks[hook]:
            self.attempt(row.title, do)

    def carry(self, former: Features) -> None:
        """Show what the features of another window show."""
        for row, feature in self._made.items():
            if row in former._made:
                self.attempt(row.title, partial(feature.carry, former._made[row]))

    def leave(self) -> None:
        """Leave what was opened last, as Escape asks for."""
        any(feature.leave() for feature in reversed(self._made.values()))

    @property
    def busy(self) -> bool:
        """Whether no other window may take the place of this one now."""
        return any(feature.busy for feature in self._made.values())

    def attempt(self, title: str, work: Callable[[], Result]) -> Result | None:
        """Return the result of some work of this part; if it fails, log and show that once, and return None."""
        try:
            return work()
        except Exception as error:
            *_, place = traceback.extract_tb(error.__traceback__)
            failure = title, type(error), place.filename, place.lineno
            if failure not in self.failures:
                self.failures[failure] = error
                log.exception("%s does not work", title)
                parts = join_names([tr(title) for title in self.failed])
                sentence = tr(
                    "Parts of this window do not work: {parts}. The others do. To try again, open the window again.",
                    parts=parts,
                )
                self.show_error(error, sentence, self._panels.broken)
            return None

    def check_beside(self, former: Features) -> None:
        """Raise the error of a feature that works in another window."""
        new = [error for (title, *_), error in self.failures.items() if title not in former.failed]
        if new:
            raise new[0]

    @property
    def failed(self) -> list[str]:
        """The titles of what has failed."""
        return list(dict.fromkeys(str(title) for title, *_ in self.failures))

    def show_error(self, error: BaseException, sentence: str = "", strip: MessageStrip | None = None) -> None:
        """Say that the window itself failed, and offer the report that has the details. `sentence`: comes first."""
        self._services.last_error = "".join(traceback.format_exception(error))[-MAX_ERROR:]
        wrong = tr(
            "Something went wrong in the window: {error!r}. Runs are not affected. "
            "Please report this: Copy report puts what is needed on the clipboard.", error=error,
        )
        text = join_sentences([sentence, wrong])
        shown = strip or self._panels.message
        shown.show_message(text, "bad", details=True, details_text=tr("Copy report"))
