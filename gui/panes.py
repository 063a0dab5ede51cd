"""Panes: all that is to be seen in the window, made once; none of them knows of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .layout import Parts
from .panels.details import Details
from .panels.device_panel import DevicePanel
from .panels.header import Header
from .panels.leftovers_strip import LeftoversStrip
from .panels.runs import RunList
from .panels.setup import SetupPanel
from .panels.strip import MessageStrip
from .stage import Stage

if TYPE_CHECKING:
    from .theme import Theme


class Panes:
    """They are shown where the layout puts `parts`."""

    def __init__(self, theme: Theme) -> None:
        self.header = Header(theme)
        self.message = MessageStrip("messageStrip", theme)
        self.run_message = MessageStrip("runStrip", theme)
        self.leftovers = LeftoversStrip(theme)
        self.devices = DevicePanel(theme)
        self.setup = SetupPanel(theme)
        self.runs = RunList(theme)
        self.details = Details(theme)
        self.stage = Stage(theme)

    @property
    def parts(self) -> Parts:
        """The same by their places."""
        return Parts(
            top=(self.header, self.message, self.run_message, self.leftovers),
            middle=self.stage,
            devices=self.devices,
            training=self.setup,
            runs=self.runs,
            details=self.details,
        )

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        strips = (self.message, self.run_message, self.leftovers)
        for pane in (self.header, *strips, self.runs, self.setup, self.stage, self.details, self.devices.table):
            pane.set_theme(theme)
