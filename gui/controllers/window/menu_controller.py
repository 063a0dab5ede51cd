"""Connect the menu bar with the panels: each action does what its button or tab does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMainWindow

from core.language import tr
from gui.services.services import Services
from gui.viewmodels.runs.run_actions import ACTIONS, ActionState, is_table, obstacles, table_obstacles
from gui.widgets.dialogs.file_dialog import FileDialog, python_files, script_files

from .dock_layout import DockLayout, MainPanels

EXPORTS = [row.name for row in ACTIONS if row.section == "exports"]
"""Actions of a run that are in the menu File."""


class MenuController(QObject):
    """Keeps nothing: the panels and the window have the state, and the menus are brought up to date as they open."""

    def __init__(self, window: QMainWindow, panels: MainPanels, services: Services, layout: DockLayout) -> None:
        super().__init__()
        self._window, self._panels = window, panels
        self._orphans, self._run_list, self._machine = services.orphan_scanner, services.run_list, services.machine
        panels.actions.judge(self._judge)
        self._fill()
        shown = panels.header.again.run_menu  # its keys work while it is closed
        for changed in (services.run_list.changed, services.session.attached, panels.menu.run.aboutToShow):
            changed.connect(shown.refresh)
        menu = panels.menu
        for name, action in (
            ("openRecipe", self._open_recipe), ("openScript", self._open_script),
            ("close", window.close), ("quit", window.close),
            ("resetLayout", layout.reset), ("fullScreen", self._toggle_full_screen),
            ("processes", panels.details.raise_processes), ("leftovers", self._find_leftovers),
        ):  # fmt: skip
            menu.action(name).triggered.connect(lambda _, action=action: action())
        for number, tab in enumerate(menu.tabs):
            tab.triggered.connect(lambda _, number=number: self._raise_tab(number))
        menu.view.aboutToShow.connect(self._show_view)
        self._show_view()

    def _fill(self) -> None:
        """Add the actions that other panels have."""
        menu, buttons = self._panels.menu, self._panels.header.buttons
        presets = self._panels.setup.presets.menu().menuAction()
        presets.setText(tr("&Presets"))
        menu.add_to_file(presets)
        menu.add_button("start", buttons.start)
        menu.add_to_run("addToQueue")
        menu.add_button("pause", buttons.pause)
        menu.add_button("stop", buttons.stop)
        menu.add_button("save", buttons.save, tr("Save checkpoint"))
        menu.add_button("allSettings", self._panels.setup.all_settings)
        menu.run.addSeparator()
        of_run = self._panels.header.again.run_menu
        exports = [of_run.action(name) for name in EXPORTS]
        menu.run.addActions([each for each in of_run.actions() if each not in exports])
        menu.add_exports(*exports)
        menu.add_to_view(self._panels.plots.optional_menu.menuAction())

    def _judge(self, run_dir: str, states: Mapping[str, ActionState]) -> None:
        found = table_obstacles() if is_table(run_dir) else obstacles(self._run_list.summary(run_dir))
        for name, why_not in {**found, **self._machine.obstacles(Path(run_dir))}.items():
            states[name].why_not = why_not

    def _open_recipe(self) -> None:
        self._choose_file(tr("Open a recipe"), self._panels.setup.open_recipe, python_files())

    def _open_script(self) -> None:
        self._choose_file(tr("Open a script"), self._panels.setup.open_script, script_files())

    def _choose_file(self, title: str, use: Callable[[Path], None], names: str) -> None:
        dialog = FileDialog(self._window, title, lambda path: use(Path(path)), names=names)
        dialog.setObjectName("openDialog")
        dialog.open()

    def _find_leftovers(self) -> None:
        self._orphans.scan()
        self._panels.details.raise_processes()

    def _toggle_full_screen(self) -> None:
        # The other states stay, so that a maximised window is maximised again afterwards.
        self._window.setWindowState(self._window.windowState() ^ Qt.WindowState.WindowFullScreen)
        self._show_view()

    def _show_view(self) -> None:
        tabs = self._panels.details.tabs
        self._panels.menu.show_tabs([tabs.tabText(tab) for tab in self._visible_tabs()])
        self._panels.menu.action("fullScreen").setChecked(self._window.isFullScreen())

    def _visible_tabs(self) -> list[int]:
        tabs = self._panels.details.tabs
        return [tab for tab in range(tabs.count()) if tabs.isTabVisible(tab)]

    def _raise_tab(self, number: int) -> None:
        visible = self._visible_tabs()
        if number < len(visible):
            self._panels.details.tabs.setCurrentIndex(visible[number])
            page = self._panels.details.currentWidget()
            if page is not None:
                page.setFocus()
