"""The controllers of one window, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .device_controller import DeviceController
from .dock_layout import DockLayout
from .memory_controller import MemoryController
from .removal_controller import RemovalController
from .resume_controller import ResumeController
from .reuse_controller import ReuseController
from .run_controller import RunController
from .run_presenter import RunPresenter
from .start_controller import StartController

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

    from gui.services.services import Services
    from gui.style.theme import Theme

    from .dock_layout import MainPanels


class Controllers:
    """Everything that connects the panels of a window with its services."""

    def __init__(self, window: QMainWindow, panels: MainPanels, services: Services, theme: Theme) -> None:
        monitor, board, session = services.device_monitor, services.run_list, services.session
        self.layout = DockLayout(window, panels.parts, theme)
        self.start = StartController(board, monitor)
        self.resume = ResumeController(board, monitor)
        self.run = RunController(window, board, session, self.start, self.resume)
        self.memory = MemoryController(panels, services)
        self.memory.set_theme(theme)
        self.presenter = RunPresenter(panels, theme, session=session, monitor=monitor, resumer=self.resume)
        self.devices = DeviceController(
            panels.devices,
            theme,
            setup=panels.setup,
            monitor=monitor,
            insight=self.memory,
            starter=self.start,
        )
        self.reuse = ReuseController(
            window,
            board=board,
            monitor=monitor,
            starter=self.start,
            helm=self.run,
            setup=panels.setup,
            devices=panels.devices.table,
        )
        self.removal = RemovalController(window, board, session)
        for each in (self.start, self.resume, self.run, self.memory, self.devices, self.reuse, self.removal):
            each.setParent(window)
