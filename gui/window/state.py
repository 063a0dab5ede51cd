"""Save the choices and the layout of the window, and restore them in the next one."""

from __future__ import annotations

import contextlib
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow

from gui.base.settings_file import SettingsFile, folder_key
from gui.base.text_size import set_zoom, zoom
from gui.widgets.dialogs import FileDialog
from gui.window.layout import DockLayout, MainPanels

FRAME = QSize(8, 48)
"""Room for what a window manager adds around a window. Its real size is known only when the window is shown."""


class WindowState:
    """Choices are saved for each folder of runs, the layout for all of them."""

    def __init__(self, window: QMainWindow, panels: MainPanels, layout: DockLayout, runs_root: Path) -> None:
        self._file = SettingsFile()
        self._choices = f"{folder_key(runs_root)}/choices"
        self._window, self._layout = window, layout
        self._setup, self._devices, self._plots = panels.setup, panels.devices.chosen, panels.plots
        self._details, self._panels = panels.details, panels

    def restore_text_size(self) -> None:
        """Restore the size of the text, before the style sheet is applied; ignore what is no number."""
        with contextlib.suppress(ValueError):
            set_zoom(float(self._file.value("window/text_zoom", str)))

    def restore(self) -> None:
        """Restore everything; leave out what does not exist any more or makes no sense."""
        choices = self._file.value(self._choices, dict)
        self._setup.restore(choices)
        ticked = choices.get("devices")
        self._devices.tick([str(each) for each in ticked] if isinstance(ticked, list) else [])
        folded = self._file.value("window/hosts", dict).get("folded")
        self._devices.fold(
            [str(each) for each in folded] if isinstance(folded, list) else [],
            unfolded_cpus=[""] if self._file.value("window/cpus_unfolded", bool) else [],
        )
        FileDialog.last_folder = self._file.value("window/last_folder", str)
        self._details.restore(self._file.value("window/tabs", dict))
        self._panels.comparison_choices = self._file.value("window/comparison", dict)
        self._window.restoreGeometry(self._file.data("window/geometry"))
        self._fit_screen()
        self._layout.restore(self._file.data("window/layout"))

    def _fit_screen(self) -> None:
        """Make the window small enough for its screen, which may be another one than that on which it was saved."""
        if not self._window.isMaximized() and not self._window.isFullScreen():
            room = self._window.screen().availableSize() - FRAME
            self._window.resize(self._window.size().boundedTo(room))

    def bring_back(self) -> None:
        """Move the window onto one screen if less than half of it is on any: that on which it was has gone."""
        window, frame = self._window, self._window.frameGeometry()
        seen = {each: each.availableGeometry().intersected(frame) for each in QGuiApplication.screens()}
        screen = max(seen, key=lambda each: seen[each].width() * seen[each].height(), default=None)
        if screen is None or window.isMaximized() or window.isFullScreen():
            return
        if 2 * seen[screen].width() * seen[screen].height() < frame.width() * frame.height():
            room = screen.availableGeometry()
            window.resize(window.size().boundedTo(room.size() - FRAME))
            window.move(room.topLeft())

    def restore_plots(self) -> None:
        """Restore how the plots are drawn, after they are created."""
        self._plots.restore(self._file.value("window/plots", dict))
        self._plots.restoreState(self._file.data("window/plot_heights"))

    def save(self) -> None:
        """Save everything."""
        values = {
            self._choices: {**self._setup.remember(), "devices": list(self._devices.wanted)},
            "window/cpus_unfolded": "" in self._devices.unfolded_cpus,
            "window/last_folder": FileDialog.last_folder,
            "window/tabs": self._details.remember(),
            "window/comparison": dict(self._panels.comparison_choices),
            "window/text_zoom": str(zoom()),
            "window/geometry": self._window.saveGeometry(),
            "window/layout": self._layout.save(),
        }
        if self._devices.folded_hosts or self._file.value("window/hosts", dict):
            values["window/hosts"] = {"folded": sorted(self._devices.folded_hosts)}
        if self._plots.plots:
            values |= {"window/plots": self._plots.remember(), "window/plot_heights": self._plots.saveState()}
        self._file.save(values)
