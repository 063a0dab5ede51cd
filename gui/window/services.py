"""What the features of one window share, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from gui.base.preferences import PreferencesFile
from gui.base.timers import PollTimer
from gui.features.compare.scaling_tables import ScalingTables
from gui.features.memory.scanner import ProcessScanner
from gui.features.runlist.queue import QueueService
from gui.machine.machine import Machine
from gui.machine.monitor import DeviceMonitor, HostMonitor
from gui.runs.run_list import RunListService
from gui.runs.session import RunSession

if TYPE_CHECKING:
    from core.devices.device import Device

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
