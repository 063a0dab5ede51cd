"""The services of one window, made once."""

from __future__ import annotations

from PySide6.QtCore import QObject

from gui.base.timers import PollTimer
from gui.features.compare.scaling_tables import ScalingTables
from gui.features.memory.scanner import OrphanScanner, ProcessScanner, ProcessTerminator
from gui.features.run.outputs import OutputReader
from gui.features.runlist.missed import MissedRuns
from gui.features.runlist.queue import QueueService
from gui.features.setup.script_search import ExpressionTester, PythonFinder
from gui.machine.machine import Machine
from gui.machine.monitor import DeviceMonitor, HostMonitor
from gui.runs.run_list import RunListService
from gui.runs.session import RunSession


class Services:
    """Everything that works in the background of a window on the runs of a machine."""

    def __init__(self, machine: Machine, window: QObject, monitor: DeviceMonitor | None = None) -> None:
        """`monitor`: that of the window whose place this one takes; it goes on. None for another one."""
        self.machine = machine
        self.poll_timer = PollTimer(window)
        self.device_monitor = monitor or DeviceMonitor(machine.sampler(), HostMonitor(is_here=machine.is_here))
        self.run_list = RunListService(machine.root)
        self.missed_runs = MissedRuns(self.run_list)
        self.queue = QueueService(self.run_list, is_here=machine.is_here)
        self.session = RunSession(machine.request)
        self.scaling_tables = ScalingTables(self.run_list)
        self.output_reader = OutputReader(self.session)
        self.process_scanner = ProcessScanner(self.device_monitor, self.run_list, self.session, is_here=machine.is_here)
        self.process_terminator = ProcessTerminator()
        self.orphan_scanner = OrphanScanner(machine.root, is_here=machine.is_here)
        self.python_finder = PythonFinder(is_here=machine.is_here)
        self.expression_tester = ExpressionTester()
        # Qt deletes them with the window. If Python's garbage collector deleted a QObject while Qt holds the lock that
        # the deletion needs, the two would wait for each other for ever.
        for each in vars(self).values():
            if isinstance(each, QObject):
                each.setParent(window)

    def close(self) -> None:
        """Begin nothing any more. The monitor goes on: it may be given to other services."""
        self.poll_timer.stop()
        self.missed_runs.save()
        self.python_finder.close()
