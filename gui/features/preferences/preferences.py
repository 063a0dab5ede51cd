"""The preferences, where they are kept, and their dialog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFormLayout, QMenu, QPushButton, QWidget

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
from gui.base.settings_file import SettingsFile
from gui.base.text_size import ZOOMS, zoom
from gui.base.theme import prefers_contrast
from gui.features.preferences.notifications import NotificationsDialog, channels_in_use, trial_result
from gui.widgets import forms
from gui.widgets.buttons import compact_button
from gui.widgets.dialogs import FileDialog, InfoDialog
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import row_of
from gui.widgets.forms import Editor

if TYPE_CHECKING:
    from gui.window.layout import MainPanels


KEY = "window/preferences"
VERSION = 1
THEMES = {"desktop": tr_noop("as the desktop"), "dark": tr_noop("dark"), "light": tr_noop("light")}
COLOURS = {
    "desktop": tr_noop("as the desktop"), "standard": tr_noop("standard"), "strong": tr_noop("strong contrast"),
}  # fmt: skip
"""Values with their titles."""
SENSELESS = tr_noop("Some preferences in {path} make no sense, and have their defaults: {shown}.")
NEWER = tr_noop(
    "The preferences were written by a newer Trainyard. What this one does not know is kept in the settings file, and "
    "has no effect."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What the user prefers. Raises `ValueError` with a few words for a value that cannot be."""

    theme: str = "desktop"
    colours: str = "desktop"
    """How strong the contrast of the colours is."""
    language: str = ""
    """Its code; the empty string for that of the desktop. An unknown code means English."""
    show_cpus: bool = True
    """Whether CPU devices are listed where there are GPUs."""
    tolerance_mb: int = ReleaseWatch().tolerance_mb
    wait_s: float = ReleaseWatch().wait_s
    cuda_ids: str = settings_of(RunSpec)["cuda_ids"].default

    def __post_init__(self) -> None:
        settings_of(RunSpec)["cuda_ids"].check(self.cuda_ids)
        ReleaseWatch(tolerance_mb=self.tolerance_mb, wait_s=self.wait_s)
        valid = {
            "theme": self.theme in THEMES,
            "colours": self.colours in COLOURS,
            "language": isinstance(self.language, str),
            "show_cpus": isinstance(self.show_cpus, bool),
        }
        for name, is_valid in valid.items():
            if not is_valid:
                raise ValueError(f"{name} = {getattr(self, name)!r}")


class PreferencesFile:
    """Reads and writes the preferences. Keeps what a newer version has written."""

    def __init__(self, file: SettingsFile) -> None:
        self._file = file
        self._kept: dict[str, Any] = {}
        self.problem = ""
        """What was wrong with the file: a sentence, or the empty string."""
        self.preferences = self._read()

    def save(self, preferences: Preferences) -> None:
        """Write the preferences now."""
        self.preferences = preferences
        self._kept = {"version": VERSION, **self._kept, **asdict(preferences)}
        self._file.save({KEY: self._kept})

    def _read(self) -> Preferences:
        self._file.move_aside_if_damaged()
        self._kept = self._file.value(KEY, dict)
        self.problem = self._file.problem
        known = Preferences()
        wrong = []
        for name in (field.name for field in fields(Preferences)):
            if name in self._kept:
                try:
                    known = replace(known, **{name: self._kept[name]})
                except (ValueError, TypeError):
                    wrong.append(f"{name} = {self._kept[name]!r}")
        version = self._kept.get("version", VERSION)
        if isinstance(version, int) and version > VERSION:
            self.problem = tr(NEWER)
        elif wrong:
            self.problem = tr(SENSELESS, path=self._file.path, shown=", ".join(wrong)[:200])
        return known


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


class PreferencesController(QObject):
    """The window applies the look when `look_changed` is emitted; the panels apply the rest."""

    look_changed = Signal()
    language_changed = Signal()
    """The user prefers another language, which the window applies."""
    zoom_chosen = Signal(float)
    """The text size, as a multiple of the desktop's; the window sets and saves it."""

    def __init__(self, panels: MainPanels, file: PreferencesFile) -> None:
        super().__init__()
        self._panels, self._file = panels, file
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
            self.look_changed.emit()
        if before.language != preferences.language:
            self.language_changed.emit()

    def _apply(self, preferences: Preferences) -> None:
        setup = self._panels.setup
        setup.release.set_defaults({"tolerance_mb": preferences.tolerance_mb, "wait_s": preferences.wait_s})
        setup.naming.set_defaults({"cuda_ids": preferences.cuda_ids})
        self._panels.devices.show_cpus(shown=preferences.show_cpus)

    def _choose_folder(self, dialog: PreferencesDialog, name: str, folder: Path | None) -> None:
        if self._panels.message.attempt(lambda: folders.choose(name, folder)):
            dialog.show_folder(name, _folders()[name])


def _channels() -> str:
    """Return by which channels the user is notified."""
    return channels_in_use(load().settings)


def _folders() -> dict[str, Path]:
    return {"runs": folders.runs_folder(), "presets": folders.presets_folder()}
