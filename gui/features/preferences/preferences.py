"""The preferences and those of notifications: where they are kept, and their dialogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFormLayout, QLineEdit, QMenu, QSpinBox, QWidget

from core.errors import RunError
from core.language import available, join_sentences, tr, tr_noop
from core.notifications.channels import OCCASIONS
from core.notifications.delivery import Outcome, deliver
from core.notifications.message import trial_message
from core.notifications.settings import CHANNELS, NotificationSettings, load, save
from core.schema.setting import settings_of
from core.schema.settings import ReleaseWatch
from core.schema.spec import RunSpec
from core.system import folders
from core.text import capital, join_names
from gui.base.jobs import Jobs, reason
from gui.base.preferences import COLOURS, THEMES, Preferences
from gui.base.text_size import ZOOMS, next_zoom, set_zoom, zoom
from gui.base.theme import Theme, apply, current_theme, mark, prefers_contrast
from gui.widgets import forms
from gui.widgets.buttons import compact_button
from gui.widgets.dialogs import FileDialog, InfoDialog
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import row_of
from gui.widgets.forms import Editor
from gui.widgets.layouts import Watch
from gui.widgets.plain_text import PlainLabel
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
        self.paths: dict[str, ElidedLabel] = {}
        """The labels of the folders."""
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

    def show_look(self, preferences: Preferences) -> None:
        """Show language, theme and colours that were chosen elsewhere."""
        self._ready = False
        self._preferences = preferences
        for name in ("language", "theme", "colours"):
            self._editors[name].set_value(getattr(preferences, name))
        self._ready = True

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
            shown = self.paths[name] = ElidedLabel(str(path), min_px=self.characters(12), name=f"{name}Folder")
            browse, usual = partial(self._browse, name), partial(self.folder_chosen.emit, name, None)
            choose = compact_button(f"{name}FolderButton", tr("Choose…"), tr("Choose…"), does=browse)
            default = compact_button(f"{name}DefaultButton", tr("Default"), tr("Default"), does=usual)
            form.addRow(self.row_label(tr(FOLDER_TITLES[name])), row_of(shown, choose, default, shares=(1, 0, 0)))

    def _add_notifications(self, channels: str) -> None:
        form = self.add_form(tr("Notifications and alarms"))
        self.channels = ElidedLabel(channels, min_px=self.characters(12), name="notificationChannels")
        wanted = self.notifications_wanted.emit
        set_up = compact_button("notificationsButton", tr("Set up…"), tr("Set up…"), does=wanted)
        form.addRow(self.row_label(tr("Sent by")), row_of(self.channels, set_up, shares=(1, 0)))

    def _browse(self, name: str) -> None:

        def choose(path: str) -> None:
            self.folder_chosen.emit(name, Path(path))

        dialog = FileDialog(self, tr(CHOOSE_FOLDER[name]), choose, begin=self.paths[name].text())
        dialog.setObjectName("folderDialog")
        dialog.ask_for_folder()
        dialog.open()


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

        def take(settings: NotificationSettings) -> None:
            try:
                save(settings)
            except RunError as error:
                dialog.show_result(str(error), "bad")
            preferences.channels.setText(_channels())

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
            dialog.paths[name].setText(str(_folders()[name]))


def _channels() -> str:
    """Return by which channels the user is notified."""
    settings = load().settings
    return join_names(tr(each.title) for each in CHANNELS if getattr(settings, each.name)) or tr("none")


def _folders() -> dict[str, Path]:
    return {"runs": folders.runs_folder(), "presets": folders.presets_folder()}


def shown_in_fields(settings: NotificationSettings) -> dict[str, Any]:
    """Return the values of the form's fields by the name of their setting. Addresses have spaces between them."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    for name, value in values.items():
        if isinstance(value, tuple) and name != "occasions":
            values[name] = " ".join(value)
    return {**values, "min_duration_s": round(settings.min_duration_s)}


def with_fields(settings: NotificationSettings, entered: Mapping[str, Any]) -> tuple[NotificationSettings, str]:
    """Return settings with each field that is valid, and why others are not: sentences, or the empty string."""
    problems, before = list[str](), shown_in_fields(settings)
    for name, value in entered.items():
        if name == "min_duration_s" and value == before[name]:
            continue  # it may have been set more exactly
        typed: dict[str, Any] = {name: _typed(value, getattr(settings, name))}
        try:
            settings = replace(settings, **typed)
        except ValueError as error:
            problems.append(str(error))
    return settings, join_sentences(problems)


def _typed(value: object, earlier: object) -> object:
    """Return what was entered as a value of the same type as an earlier one."""
    if isinstance(value, str):
        return tuple(value.split()) if isinstance(earlier, tuple) else value.strip()
    return float(value) if isinstance(earlier, float) and isinstance(value, int) else value


def trial_result(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """Return what became of a test message, and its tone."""
    delivered = [tr(each.channel.title) for each in outcomes if not each.why]
    sentences = [f"{tr(each.channel.title)}: {each.why}" for each in outcomes if each.why]
    if delivered:
        sentences.insert(0, tr("The test message was sent: {channels}.", channels=join_names(delivered)))
    elif not outcomes:
        sentences.append(tr("Nothing is chosen above, so no notification would be sent."))
    return "\n".join(sentences), "good" if delivered and len(delivered) == len(outcomes) else "warn"


CHANNELS_WIDTH = 68
"""Width of the dialog, in letters."""
RESULT_LINES = 3


class NotificationsDialog(InfoDialog):
    """Emits the settings after each change; a field that is not valid keeps its last value, and the reason is shown."""

    changed = Signal(object)

    def __init__(self, parent: QWidget, settings: NotificationSettings, problem: str) -> None:
        super().__init__(parent, name="notificationsDialog", heading=tr("Notifications and alarms"))
        self._settings = settings
        self._testing = Jobs(self, "notify")
        self._ready = False
        self._editors = self._make_editors()
        self._occasions = dict[str, Editor]()
        for name, row in OCCASIONS.items():
            title, tip = capital(tr(row.title)), tr("Notify me when {occasion}", occasion=tr(row.title))
            self._occasions[name] = forms.check(f"{name}OccasionBox", title, tip, self._take, text=title)
        self._add_fields()
        self._result = PlainLabel(problem, name="notificationsResult", wraps=True)
        self._result.setMinimumHeight(self.lines(RESULT_LINES))
        self.content.addWidget(self._result)
        self._test_button = self.add_button("testNotificationsButton", tr("Send a test message"), self._test)
        values = shown_in_fields(settings)
        for name, editor in self._editors.items():
            editor.set_value(values[name])
        for name, editor in self._occasions.items():
            editor.set_value(name in values["occasions"])
        self._ready = True
        if problem:
            self.show_result(problem, "warn")
        self.resize(self.characters(CHANNELS_WIDTH), self.sizeHint().height())

    def show_result(self, text: str, tone: str) -> None:
        """Show what became of a test, or what is wrong; a test may be made again."""
        self._result.setText(text)
        mark(self._result, tone=tone)
        self._test_button.setEnabled(True)

    def reject(self) -> None:
        """Take what is in the fields, and close."""
        self._take()
        super().reject()

    def _make_editors(self) -> dict[str, Editor]:
        made = {}
        for each in CHANNELS:
            title, what, value = tr(each.title), capital(tr(each.help)), getattr(self._settings, each.name)
            if isinstance(value, bool):
                here = tr("On this desktop")
                made[each.name] = forms.check(f"{each.name}Box", title, what, self._take, text=here)
                continue
            if isinstance(value, tuple):
                what = tr("{what}. Put spaces between several", what=what)
            made[each.name] = forms.text(f"{each.name}Edit", title, what, self._check, empty=each.example)
            edit = made[each.name].widget
            assert isinstance(edit, QLineEdit)
            edit.editingFinished.connect(self._take)
            if each.is_address:  # shown only while it has the focus; Qt's own mode would clear it at the first key
                hidden, shown = QLineEdit.EchoMode.Password, QLineEdit.EchoMode.Normal
                edit.setEchoMode(hidden)
                Watch(edit, edit, {QEvent.Type.FocusIn}, partial(edit.setEchoMode, shown))
                Watch(edit, edit, {QEvent.Type.FocusOut}, partial(edit.setEchoMode, hidden))
        title = tr("Shortest run, in seconds")
        tip = tr("The end of a run that took less time is not notified; waiting in a queue counts")
        shortest = made["min_duration_s"] = forms.integer(
            "minDurationBox", title, tip, self._take, minimum=0, arrows=False
        )
        assert isinstance(shortest.widget, QSpinBox)
        shortest.widget.setSuffix(" s")
        return made

    def _add_fields(self) -> None:
        where = self.add_form(tr("Where"))
        where.addRow(self._editors["desktop"].widget)
        for channel in CHANNELS:
            if channel.name != "desktop":
                widget = self._editors[channel.name].widget
                where.addRow(self.row_label(tr(channel.title), widget), widget)
        shortest = self._editors["min_duration_s"].widget
        when, alarms = self.add_form(tr("When")), self.add_form(tr("Alarms, also in the window"))
        for form in (when, alarms):  # Tab follows the order in which rows are added
            form.setVerticalSpacing(2)
            for name, editor in self._occasions.items():
                if (form is when) is bool(OCCASIONS[name].states):
                    form.addRow(editor.widget)
            if form is when:
                when.addRow(self.row_label(tr("Shortest run"), shortest), shortest)
        alarms.addRow(PlainLabel(tr("Without a run: watched only while a window is open."), role="small", wraps=True))

    def _entered(self) -> tuple[NotificationSettings, str]:
        """Return the settings with each field that is valid, and what is wrong with the others."""
        values: dict[str, Any] = {name: editor.value() for name, editor in self._editors.items()}
        values["occasions"] = tuple(name for name in OCCASIONS if self._occasions[name].value())
        return with_fields(self._settings, values)

    def _check(self) -> None:
        """Show what is wrong with the fields."""
        if self._ready:
            problem = self._entered()[1]
            self.show_result(problem, "warn" if problem else "")

    def _take(self) -> None:
        """Report the fields that are valid."""
        if not self._ready:
            return
        settings, problem = self._entered()
        if problem:
            self.show_result(problem, "warn")
        if settings != self._settings:
            self._settings = settings
            self.changed.emit(settings)

    def _test(self) -> None:
        """Send a message to all channels that are set, unless the last test is still under way."""
        self._take()
        if self._entered()[1]:
            return
        self.show_result(tr("The test message is being sent …"), "")
        self._test_button.setEnabled(False)
        send = partial(deliver, self._settings, trial_message())
        self._testing.start(lambda: trial_result(send()), lambda result: self.show_result(*result), self._show_failure)

    def _show_failure(self, error: Exception) -> None:
        self.show_result(tr("The test message could not be sent: {reason}.", reason=reason(error)), "bad")
