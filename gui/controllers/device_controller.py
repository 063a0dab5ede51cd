"""Roster: the list of devices as it is now, and what the rest of the window is to know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from gui.style.device_colours import device_colours
from gui.viewmodels.devices.device_rows import DeviceRows
from gui.viewmodels.setup.start_check import standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gui.panels.devices.device_panel import DevicePanel
    from gui.panels.setup.setup_panel import SetupPanel
    from gui.services.device_monitor import DeviceMonitor
    from gui.style.theme import Theme
    from gui.viewmodels.devices.device_rows import DeviceRow

    from .memory_controller import MemoryController
    from .start_controller import StartController


class DeviceController(QObject):
    """Shows the devices, and has the choices judged when what was said of the ticked ones may not be true any more."""

    others = Signal()
    """Other devices are listed from now on."""
    resized = Signal()
    """The list needs another height."""

    def __init__(
        self,
        panel: DevicePanel,
        theme: Theme,
        *,
        setup: SetupPanel,
        monitor: DeviceMonitor,
        insight: MemoryController,
        starter: StartController,
    ) -> None:
        super().__init__()
        self._panel, self._theme, self._setup = panel, theme, setup
        self._monitor, self._insight, self._starter = monitor, insight, starter
        self._rows = DeviceRows()
        self._judged: object = ([], [])
        """What was known of the devices when the choices were judged last."""
        panel.table.ticks_changed.connect(self._take_ticks)
        starter.choices_wanted.connect(self._give_choices)
        insight.changed.connect(self.show)

    def show(self) -> None:
        """Show the latest readings."""
        survey, table = self._monitor.survey, self._panel.table
        before, size = [item.id for item in table.rows], self._panel.sizeHint()
        colours = device_colours(survey.devices, (), self._theme)
        rows = self._rows.make(survey, colours, self._insight.on_devices())
        self._judge_anew_where_due(rows)
        table.show_rows(rows)
        self._panel.show_banner(survey.banner)
        if before != [item.id for item in rows]:
            self._setup.show_machine(survey.devices)
            self._take_ticks()
            self.others.emit()
        if self._panel.sizeHint() != size:
            self.resized.emit()

    def set_theme(self, theme: Theme) -> None:
        """Show the devices in the colours of a theme."""
        self._theme = theme
        self.show()

    def _judge_anew_where_due(self, rows: Sequence[DeviceRow]) -> None:
        closed = [item.id for item in rows if item.lost or item.blocked]
        held_by = {item.id: item.held_by for item in rows if item.held_by}
        ticked = self._panel.table.ticked()
        judged = (closed, standing(self._monitor.survey, self._monitor.old_s, held_by, ticked))
        if judged != self._judged:
            self._judged = judged
            self._starter.ask()

    def _take_ticks(self) -> None:
        ticked = self._panel.table.ticked()
        self._setup.show_devices([each for each in self._monitor.survey.devices if each.id in ticked])
        self._starter.ask()

    def _give_choices(self) -> None:
        held_by = self._insight.on_devices().held_by
        self._starter.take(self._setup.choices(self._panel.table.ticked()), held_by)
