"""Apply the preferences, and change them in a dialog."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu

from core.errors import RunError
from core.language import tr
from core.notifications.delivery import deliver
from core.notifications.message import trial_message
from core.notifications.settings import load, save
from core.system import folders
from gui.controllers.setup.device_controller import DeviceController
from gui.panels.window.notifications_dialog import NotificationsDialog
from gui.panels.window.preferences_dialog import PreferencesDialog, offered_colours
from gui.services.jobs import Jobs, reason
from gui.services.window.preferences import THEMES, Preferences, PreferencesFile
from gui.viewmodels.notifications import channels_in_use, trial_result

from .dock_layout import MainPanels

if TYPE_CHECKING:
    from core.notifications.settings import NotificationSettings


class PreferencesController(QObject):
    """The window applies the look when `look_changed` is emitted; the panels apply the rest."""

    look_changed = Signal()
    language_changed = Signal()
    """The user prefers another language, which the window applies."""
    zoom_chosen = Signal(float)
    """The text size, as a multiple of the desktop's; the window sets and saves it."""

    def __init__(self, panels: MainPanels, devices: DeviceController, file: PreferencesFile) -> None:
        super().__init__()
        self._panels, self._devices, self._file = panels, devices, file
        self._look_menus: dict[str, QMenu] = {}
        panels.menu.action("preferences").triggered.connect(lambda _: self.show_dialog())
        panels.menu.view.aboutToShow.connect(self._show_look_menus)
        self._apply(file.preferences)

    def report_problem(self, with_language: str) -> None:
        """Say what is wrong with the settings file, and with the language, once the window is open."""
        problems = " ".join(text for text in (self._file.problem, with_language) if text)
        if problems:
            self._panels.message.show_message(problems, "warn")

    @property
    def is_open(self) -> bool:
        """Whether the dialog is open."""
        return bool(self._panels.window.findChildren(PreferencesDialog))

    def show_dialog(self) -> None:
        """Open the preferences, or raise them."""
        shown = self._panels.window.findChildren(PreferencesDialog)
        if shown:
            shown[0].activateWindow()
            return
        dialog = PreferencesDialog(self._panels.window, self._file.preferences, _folders(), _channels())
        dialog.changed.connect(self._take)
        dialog.zoom_chosen.connect(self.zoom_chosen)
        dialog.folder_chosen.connect(lambda name, folder: self._choose_folder(dialog, name, folder))
        dialog.notifications_wanted.connect(lambda: self._show_notifications(dialog))
        dialog.show()

    def _show_look_menus(self) -> None:
        """Tick theme and colours in the submenus of View, which are made when it is first opened."""
        preferences, menu = self._file.preferences, self._panels.menu
        if not self._look_menus:
            colours = offered_colours(preferences.colours)
            for name, title, values in (("theme", tr("&Theme"), THEMES), ("colours", tr("C&olours"), colours)):
                self._look_menus[name] = menu.add_choice(name, title, values, partial(self.choose, name))
        for name, choice in self._look_menus.items():
            for action in choice.actions():
                action.setChecked(action.data() == getattr(preferences, name))

    def choose(self, name: str, value: str) -> None:
        """Prefer another theme, other colours or another language, as if they were chosen in the dialog."""
        chosen: dict[str, Any] = {name: value}
        self._take(replace(self._file.preferences, **chosen))
        for dialog in self._panels.window.findChildren(PreferencesDialog):
            dialog.show_look(self._file.preferences)

    def _show_notifications(self, preferences: PreferencesDialog) -> None:
        """Open the settings of notifications over the preferences."""
        loaded = load()
        dialog = NotificationsDialog(preferences, loaded.settings, loaded.problem)
        testing = Jobs(dialog, "notify")

        def test(settings: NotificationSettings) -> None:
            """Send a message to all channels that are set, unless the last test is still under way."""
            testing.start(
                lambda: trial_result(deliver(settings, trial_message())),
                lambda result: dialog.show_result(*result),
                lambda error: dialog.show_result(
                    tr("The test message could not be sent: {reason}.", reason=reason(error)), "bad"
                ),
            )

        dialog.test_wanted.connect(test)
        dialog.changed.connect(lambda settings: self._take_notifications(preferences, dialog, settings))
        dialog.open()

    @staticmethod
    def _take_notifications(
        preferences: PreferencesDialog, dialog: NotificationsDialog, settings: NotificationSettings
    ) -> None:
        try:
            save(settings)
        except RunError as error:
            dialog.show_result(str(error), "bad")
        preferences.show_channels(_channels())

    def _take(self, preferences: Preferences) -> None:
        before = self._file.preferences
        self._file.save(preferences)
        self._apply(preferences)
        if (before.theme, before.colours) != (preferences.theme, preferences.colours):
            self.look_changed.emit()
        if before.language != preferences.language:
            self.language_changed.emit()

    def _apply(self, preferences: Preferences) -> None:
        setup = self._panels.setup
        setup.release.set_defaults({"tolerance_mb": preferences.tolerance_mb, "wait_s": preferences.wait_s})
        setup.naming.set_defaults({"cuda_ids": preferences.cuda_ids})
        self._devices.show_cpus(shown=preferences.show_cpus)

    def _choose_folder(self, dialog: PreferencesDialog, name: str, folder: Path | None) -> None:
        try:
            folders.choose(name, folder)
        except RunError as error:
            self._panels.message.show_message(str(error), "bad")
        else:
            dialog.show_folder(name, _folders()[name])


def _channels() -> str:
    """Return by which channels the user is notified."""
    return channels_in_use(load().settings)


def _folders() -> dict[str, Path]:
    return {"runs": folders.runs_folder(), "presets": folders.presets_folder()}
