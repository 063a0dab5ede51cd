"""The preferences, where they are kept, and their dialog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFormLayout, QMenu, QPushButton, QWidget

from core.errors import RunError
from core.language import available, tr, tr_noop
from core.notifications.delivery import deliver
from core.notifications.message import trial_message
from core.notifications.settings import NotificationSettings, load, save
from core.schema.setting import settings_of
from core.schema.settings import ReleaseWatch
from core.schema.spec import RunSpec
from core.system import folders
from gui.base.jobs import Jobs, reason
from gui.base.preferences import COLOURS, THEMES, Preferences
from gui.base.text_size import ZOOMS, next_zoom, set_zoom, zoom
from gui.base.theme import Theme, apply, current_theme, prefers_contrast
from gui.features.preferences.notifications import NotificationsDialog, channels_in_use, trial_result
from gui.widgets import forms
from gui.widgets.buttons import compact_button
from gui.widgets.dialogs import FileDialog, InfoDialog
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import row_of
from gui.widgets.forms import Editor
from gui.window.feature import Feature

WIDTH = 64
"""Width of the dialog, in letters."""
DEFAULTS = {**settings_of(ReleaseWatch), **settings_of(RunSpec)}
BOXES = {"tolerance_mb": "defaultToleranceBox", "wait_s": "defaultWaitEdit", "cuda_ids": "defaultCudaIdsBox"}
"""The settings that have a default here, with the names of their fields."""
FOLDER_TITLES = {"runs": tr_noop("Runs"), "presets": tr_noop("Presets")}
CHOOSE_FOLDER = {"runs": tr_noop("Folder of the runs"), "presets": tr_noop("Folder of the presets")}
MAX_CODE = 40
"""Characters of an unknown language that are shown."""
FOLDERS = tr_noop("Folders (from the next start of Trainyard on)")
MEMORY = tr_noop("Memory check after the end (defaults; All settings has them for one run)")


class PreferencesDialog(InfoDialog):
    """Emits the preferences after each change; a field that is not valid yet keeps its last value."""

    changed = Signal(object)
    zoom_chosen = Signal(float)
    """The text size, as a multiple of the desktop's."""
    folder_chosen = Signal(str, object)
    """`runs` or `presets`, and the folder, or None for the default."""
    notifications_wanted = Signal()
    """The user wants to see the settings of notifications."""

    def __init__(self, parent: QWidget, preferences: Preferences, folders: Mapping[str, Path], channels: str) -> None:
        """`channels`: those by which the user is notified."""
        super().__init__(parent, name="preferencesDialog", heading=tr("Preferences"))
        self._preferences = preferences
        self._paths: dict[str, ElidedLabel] = {}
        self._editors = self._make_editors()
        look = self._add_group(tr("Look"), {"language": tr("Language"), "theme": tr("Theme"), "colours": tr("Colours")})
        sizes = [(f"{each:.0%}".replace("%", " %"), str(each)) for each in ZOOMS]
        tip = tr("Size of all texts, relative to the desktop's")
        self._zoom = forms.one_of("textSizeBox", tr("Text size"), tip, self._take_zoom, sizes)
        self._zoom.set_value(str(zoom()))
        look.addRow(self.row_label(tr("Text size"), self._zoom.widget), self._zoom.widget)
        self._add_folders(folders)
        self._add_group(tr("Devices"), {"show_cpus": ""})
        self._add_group(tr(MEMORY), {name: tr(DEFAULTS[name].title) for name in BOXES})
        self._add_notifications(channels)
        for name, editor in self._editors.items():
            editor.set_value(getattr(preferences, name))
        self._ready = True
        self.resize(self.characters(WIDTH), self.sizeHint().height())

    def show_folder(self, name: str, folder: Path) -> None:
        """Show a folder that was chosen."""
        self._paths[name].setText(str(folder))

    def show_look(self, preferences: Preferences) -> None:
        """Show language, theme and colours that were chosen elsewhere."""
        self._ready = False
        self._preferences = preferences
        for name in ("language", "theme", "colours"):
            self._editors[name].set_value(getattr(preferences, name))
        self._ready = True

    def show_channels(self, channels: str) -> None:
        """Show by which channels the user is notified."""
        self._channels.setText(channels)

    def _make_editors(self) -> dict[str, Editor]:
        self._ready = False
        take, one_of = self._take, forms.one_of
        themes = [(tr(title), each) for each, title in THEMES.items()]
        colours = [(tr(title), each) for each, title in offered_colours(self._preferences.colours).items()]
        in_words = tr("Language of the window. The command line follows the environment")
        contrast = tr("Strong contrast: texts at least 7 : 1, borders, lines and marks at least 4.5 : 1")
        cpus = tr("List CPU devices also where there are GPUs; ticked ones always are")
        text = tr("Show CPU devices where there are GPUs")
        return {
            "language": one_of("languageBox", tr("Language"), in_words, take, self._languages()),
            "theme": one_of("themeBox", tr("Theme"), tr("Colours of the window"), take, themes),
            "colours": one_of("coloursBox", tr("Colours"), contrast, take, colours),
            "show_cpus": forms.check("showCpusBox", tr("Show CPU devices"), cpus, take, text=text),
            **{name: forms.of_setting(DEFAULTS[name], take, box) for name, box in BOXES.items()},
        }

    def _languages(self) -> list[tuple[str, str]]:
        """Return titles and codes. One that there is not stays chosen until the user chooses another."""
        chosen, found = self._preferences.language, available()
        unknown = [] if chosen in {"", *found} else [(chosen[:MAX_CODE], chosen)]
        return [(tr("as the desktop"), ""), *((title, code) for code, title in found.items()), *unknown]

    def _take(self) -> None:
        """Report the fields that are valid."""
        if not self._ready:
            return
        chosen = self._preferences
        for name, editor in self._editors.items():
            entered: dict[str, Any] = {name: editor.value()}
            try:
                chosen = replace(chosen, **entered)
            except (ValueError, TypeError):
                continue  # such as a number that is half typed
        if chosen != self._preferences:
            self._preferences = chosen
            self.changed.emit(chosen)

    def _take_zoom(self) -> None:
        if self._ready:
            self.zoom_chosen.emit(float(str(self._zoom.value())))

    def _add_group(self, title: str, rows: Mapping[str, str]) -> QFormLayout:
        form = self.add_form(title)
        for name, text in rows.items():
            widget = self._editors[name].widget
            if text:
                form.addRow(self.row_label(text, widget), widget)
            else:
                form.addRow(widget)
        return form

    def _add_folders(self, folders: Mapping[str, Path]) -> None:
        form = self.add_form(tr(FOLDERS))
        for name, path in folders.items():
            shown = self._paths[name] = ElidedLabel(str(path), min_px=self.characters(12), name=f"{name}Folder")
            choose = self._button(f"{name}FolderButton", tr("Choose…"), partial(self._browse, name))
            default = self._button(f"{name}DefaultButton", tr("Default"), partial(self.folder_chosen.emit, name, None))
            form.addRow(self.row_label(tr(FOLDER_TITLES[name])), row_of(shown, choose, default, shares=(1, 0, 0)))

    def _add_notifications(self, channels: str) -> None:
        form = self.add_form(tr("Notifications about runs that end"))
        self._channels = ElidedLabel(channels, min_px=self.characters(12), name="notificationChannels")
        set_up = self._button("notificationsButton", tr("Set up…"), self.notifications_wanted.emit)
        form.addRow(self.row_label(tr("Sent by")), row_of(self._channels, set_up, shares=(1, 0)))

    def _browse(self, name: str) -> None:

        def choose(path: str) -> None:
            self.folder_chosen.emit(name, Path(path))

        dialog = FileDialog(self, tr(CHOOSE_FOLDER[name]), choose, begin=self._paths[name].text())
        dialog.setObjectName("folderDialog")
        dialog.ask_for_folder()
        dialog.open()

    def _button(self, name: str, text: str, action: Callable[[], object]) -> QPushButton:
        button = compact_button(name, text, text)
        button.clicked.connect(lambda _: action())
        return button


def offered_colours(chosen: str) -> dict[str, str]:
    """Return values and titles. Where Qt cannot tell what the desktop prefers, that choice means the standard."""
    offered = dict(COLOURS)
    if prefers_contrast(QGuiApplication.styleHints()) is None:
        as_desktop = chosen == "desktop"
        offered["desktop" if as_desktop else "standard"] = offered["standard"]
        del offered["standard" if as_desktop else "desktop"]
    return offered


class PreferencesController(Feature):
    """Applies what is chosen at once. The window applies the language."""

    def set_up(self) -> None:
        panels, services = self.panels, self.services
        self._file = services.preferences
        self._look_menus: dict[str, QMenu] = {}
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self._app = app
        panels.menu.provide(
            preferences=self.show_dialog, larger=lambda: self.set_text_zoom(next_zoom(1)),
            smaller=lambda: self.set_text_zoom(next_zoom(-1)), normalSize=lambda: self.set_text_zoom(1.0),
        )
        panels.menu.view.aboutToShow.connect(self._show_look_menus)
        services.language.changed.connect(lambda code: self.choose("language", code))
        self._apply(self._file.preferences)

    def opened(self) -> None:
        """Say what is wrong with the settings file."""
        if self._file.problem:
            self.panels.message.show_message(self._file.problem, "warn")

    def carry(self, former: Self) -> None:
        """Open the preferences where they were open."""
        if former.panels.window.findChildren(PreferencesDialog):
            self.show_dialog()

    def show_dialog(self) -> None:
        """Open the preferences, or raise them."""
        shown = self.panels.window.findChildren(PreferencesDialog)
        if shown:
            shown[0].activateWindow()
            return
        dialog = PreferencesDialog(self.panels.window, self._file.preferences, _folders(), _channels())
        dialog.changed.connect(self._take)
        dialog.zoom_chosen.connect(self.set_text_zoom)
        dialog.folder_chosen.connect(lambda name, folder: self._choose_folder(dialog, name, folder))
        dialog.notifications_wanted.connect(lambda: self._show_notifications(dialog))
        dialog.show()

    def _show_look_menus(self) -> None:
        """Tick theme and colours in the submenus of View, which are made when it is first opened."""
        preferences, menu = self._file.preferences, self.panels.menu
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
        for dialog in self.panels.window.findChildren(PreferencesDialog):
            dialog.show_look(self._file.preferences)

    def _show_notifications(self, preferences: PreferencesDialog) -> None:
        """Open the settings of notifications over the preferences."""
        loaded = load()
        dialog = NotificationsDialog(preferences, loaded.settings, loaded.problem)
        testing = Jobs(dialog, "notify")

        def fail(error: Exception) -> None:
            dialog.show_result(tr("The test message could not be sent: {reason}.", reason=reason(error)), "bad")

        def test(settings: NotificationSettings) -> None:
            """Send a message to all channels that are set, unless the last test is still under way."""
            send = partial(deliver, settings, trial_message())
            testing.start(lambda: trial_result(send()), lambda result: dialog.show_result(*result), fail)

        def take(settings: NotificationSettings) -> None:
            try:
                save(settings)
            except RunError as error:
                dialog.show_result(str(error), "bad")
            preferences.show_channels(_channels())

        dialog.test_wanted.connect(test)
        dialog.changed.connect(take)
        dialog.open()

    def _take(self, preferences: Preferences) -> None:
        before = self._file.preferences
        self._file.save(preferences)
        self._apply(preferences)
        if (before.theme, before.colours) != (preferences.theme, preferences.colours):
            apply(self._app, Theme.chosen(preferences.theme, preferences.colours, self._app))
        self.services.language.set(preferences.language)

    def set_text_zoom(self, zoom: float) -> None:
        """Enlarge or reduce all text; 1 is the size of the desktop's font."""
        set_zoom(zoom)
        apply(self._app, current_theme())

    def _apply(self, preferences: Preferences) -> None:
        setup = self.panels.setup
        setup.release.set_defaults({"tolerance_mb": preferences.tolerance_mb, "wait_s": preferences.wait_s})
        setup.naming.set_defaults({"cuda_ids": preferences.cuda_ids})
        self.panels.devices.show_cpus(shown=preferences.show_cpus)

    def _choose_folder(self, dialog: PreferencesDialog, name: str, folder: Path | None) -> None:
        if self.panels.message.attempt(lambda: folders.choose(name, folder)):
            dialog.show_folder(name, _folders()[name])


def _channels() -> str:
    """Return by which channels the user is notified."""
    return channels_in_use(load().settings)


def _folders() -> dict[str, Path]:
    return {"runs": folders.runs_folder(), "presets": folders.presets_folder()}
