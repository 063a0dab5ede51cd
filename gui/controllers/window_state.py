"""Keeper: brings choices and layout back as they were left, and writes them down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gui.services.settings_file import SettingsFile, folder_key

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QMainWindow

    from gui.panels.devices.device_table import DeviceTable
    from gui.panels.setup.setup_panel import SetupPanel
    from gui.plots.plot_area import PlotArea

    from .dock_layout import DockLayout


class WindowState:
    """What was chosen is kept for each folder of runs; how the window stands, for all of them."""

    def __init__(
        self,
        runs_root: Path,
        *,
        window: QMainWindow,
        layout: DockLayout,
        setup: SetupPanel,
        devices: DeviceTable,
        stage: PlotArea,
    ) -> None:
        self._kept = SettingsFile()
        self._choices = f"{folder_key(runs_root)}/choices"
        self._window, self._layout = window, layout
        self._setup, self._devices, self._stage = setup, devices, stage

    def restore(self) -> None:
        """Bring everything back; what is not there any more, or makes no sense, is left out."""
        choices = self._kept.mapping(self._choices)
        self._setup.restore(choices)
        ticked = choices.get("devices")
        self._devices.tick([str(each) for each in ticked] if isinstance(ticked, list) else [])
        self._stage.restore(self._kept.mapping("window/plots"))
        self._window.restoreGeometry(self._kept.data("window/geometry"))
        devices = self._kept.text("window/layout_devices")
        self._layout.restore(self._kept.data("window/layout"), int(devices) if devices.isdecimal() else 0)
        self._stage.restoreState(self._kept.data("window/plot_heights"))

    def keep(self) -> None:
        """Write everything down."""
        self._kept.keep_mapping(self._choices, {**self._setup.remember(), "devices": list(self._devices.ticked())})
        self._kept.keep_mapping("window/plots", self._stage.remember())
        self._kept.keep_data("window/geometry", self._window.saveGeometry())
        self._kept.keep_data("window/layout", self._layout.save())
        self._kept.keep_text("window/layout_devices", str(self._layout.stands_for))
        self._kept.keep_data("window/plot_heights", self._stage.saveState())
        self._kept.save()

    def first_time(self, what: str) -> bool:
        """Whether this has not been asked before, of any window of this user."""
        if self._kept.text(f"window/{what}"):
            return False
        self._kept.keep_text(f"window/{what}", "yes")
        self._kept.save()
        return True
