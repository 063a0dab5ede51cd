"""Do what the guidance for a first run offers: tick free devices, train the example, open a script."""

from __future__ import annotations

from PySide6.QtCore import QObject

from gui.controllers.window.dock_layout import MainPanels
from gui.viewmodels.devices.device_rows import free_devices
from gui.viewmodels.run.empty_states import EXAMPLE

from .start_controller import StartController


class FirstStepsController(QObject):
    """`RunController` decides when the guidance is shown."""

    def __init__(self, panels: MainPanels, start: StartController) -> None:
        super().__init__()
        self._panels, self._start = panels, start
        panels.first_steps.asked.connect(self._do)

    def _do(self, name: str) -> None:
        match name:
            case "firstTickButton":
                self._tick_free()
            case "firstExampleButton":
                self._train_example()
            case "firstScriptButton":
                self._panels.menu.action("openScript").trigger()

    def _tick_free(self) -> None:
        devices = self._panels.devices
        devices.tick_only(free_devices(devices.table.rows))

    def _train_example(self) -> None:
        """Start the example on the ticked devices, or on the first free one."""
        devices, setup = self._panels.devices, self._panels.setup
        if not devices.ticked():
            devices.tick_only(free_devices(devices.table.rows)[:1])
        setup.choose_built_in(EXAMPLE)
        self._start.check(setup.choices())
        self._start.start()
