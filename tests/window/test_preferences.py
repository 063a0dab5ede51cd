"""Preferences: they hold at once and in every window, and a damaged or newer settings file is survived."""

import json

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QCheckBox,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QMenu,
    QPushButton,
    QSpinBox,
    QWidget,
)

from core.config import presets
from core.history import index
from core.notifications.settings import NotificationSettings
from core.schema.files import MAX_JSON_BYTES
from core.system import folders
from gui.base.preferences import COLOURS, KEY, Preferences, PreferencesFile
from gui.base.settings_file import SettingsFile, default_file
from gui.base.text_size import set_zoom, zoom
from gui.base.theme import DARK, LIGHT, STRONG_DARK, current_theme, stylesheet
from gui.features.hosts import HostsDialog
from gui.features.preferences import preferences as preferences_dialog
from gui.features.preferences.preferences import NotificationsDialog, PreferencesDialog
from tests.window.driving import apply_palette


@pytest.mark.parametrize(
    "make",
    [
        lambda parent, asked: HostsDialog(parent, [], lambda *texts: asked.append(texts)),
        lambda parent, _: PreferencesDialog(parent, Preferences(), {}, ""),
        lambda parent, _: NotificationsDialog(parent, NotificationSettings(), ""),
    ],
    ids=["hosts", "preferences", "notifications"],
)
def test_enter_in_a_field_does_not_close_the_dialog(hold, qtbot, make):
    asked = []
    dialog = make(hold(QWidget()), asked)
    with qtbot.waitActive(dialog):
        dialog.open()
        dialog.activateWindow()
    fields = [
        field
        for kind in (QLineEdit, QComboBox, QAbstractSpinBox)
        for field in dialog.findChildren(kind)
        if field.isEnabled() and field.isVisible() and not isinstance(field.parent(), QAbstractSpinBox)
    ]
    assert len(fields) >= 3
    for field in fields:
        field.setFocus()
        if field.objectName() == "hostAddressEdit":
            field.setText("me@there")
        qtbot.keyClick(field, Qt.Key.Key_Return)
        assert dialog.isVisible(), field.objectName()
    assert (("me@there", "", "") in asked) is isinstance(dialog, HostsDialog)
    dialog.findChild(QPushButton, "closeButton").setFocus()
    qtbot.keyClick(dialog.focusWidget(), Qt.Key.Key_Return)
    assert not dialog.isVisible()


def opened(panel) -> PreferencesDialog:
    panel.window.panels.menu.action("preferences").trigger()
    return panel.window.findChild(PreferencesDialog)


def keep(**values) -> None:
    """Write preferences as another version would."""
    SettingsFile().save({KEY: values})


@pytest.mark.styled
@pytest.mark.slow
def test_theme_and_defaults_hold_at_once_and_in_the_next_window(drive):
    panel = drive()
    dialog = opened(panel)
    dialog.findChild(QComboBox, "themeBox").setCurrentText("light")
    assert current_theme() is LIGHT
    assert QApplication.instance().styleSheet() == stylesheet(LIGHT)
    dialog.findChild(QSpinBox, "defaultToleranceBox").setValue(128)
    wait = dialog.findChild(QLineEdit, "defaultWaitEdit")
    wait.setText("no number")
    wait.setText("90")
    tolerance = panel.window.findChild(QSpinBox, "releaseToleranceBox")
    assert tolerance.value() == 128
    assert panel.window.panels.setup.choices().release == {"tolerance_mb": 128, "wait_s": 90}
    tolerance.setValue(64)  # for this run alone
    panel.window.close()
    other = drive()
    assert current_theme() is LIGHT
    assert other.window.panels.setup.choices().release == {"tolerance_mb": 64, "wait_s": 90}


def test_colours_hold_at_once_and_in_the_next_window(drive, monkeypatch):
    """Only the window's own parts are restyled: styling each widget of the tests' application takes seconds."""
    sheets = []

    def apply(app, theme):
        sheets.append(stylesheet(theme))
        apply_palette(app, theme)

    for module in ("gui.window.main_window", "gui.features.preferences.preferences"):
        monkeypatch.setattr(f"{module}.apply", apply)
    panel = drive()
    box = opened(panel).findChild(QComboBox, "coloursBox")
    assert [box.itemText(each) for each in range(box.count())] == ["as the desktop", "standard", "strong contrast"]
    assert box.currentText() == "as the desktop"
    box.setCurrentText("strong contrast")
    assert current_theme() is STRONG_DARK
    assert sheets[-1] == stylesheet(STRONG_DARK)
    assert panel.devices[0].colour == STRONG_DARK.devices[0]
    panel.window.close()
    other = drive()
    assert current_theme() is STRONG_DARK
    box = opened(other).findChild(QComboBox, "coloursBox")
    other.window.panels.menu.view.aboutToShow.emit()
    choices = {each.text(): each for each in other.window.findChild(QMenu, "coloursMenu").actions()}
    assert [text for text, each in choices.items() if each.isChecked()] == ["strong contrast"]
    choices["standard"].trigger()
    assert current_theme() is DARK
    assert box.currentText() == "standard", "the dialog that is open follows"
    other.window.panels.menu.view.aboutToShow.emit()
    assert [text for text, each in choices.items() if each.isChecked()] == ["standard"]


@pytest.mark.parametrize("chosen", COLOURS)
def test_colours_of_the_desktop_are_not_offered_where_qt_cannot_tell_them(hold, monkeypatch, chosen):
    monkeypatch.setattr(preferences_dialog, "prefers_contrast", lambda _: None)
    parent = hold(QWidget())
    dialog = PreferencesDialog(parent, Preferences(colours=chosen), {}, "")
    box, taken = dialog.findChild(QComboBox, "coloursBox"), []
    assert [box.itemText(each) for each in range(box.count())] == ["standard", "strong contrast"]
    assert box.currentText() == ("strong contrast" if chosen == "strong" else "standard")
    dialog.changed.connect(taken.append)
    dialog.findChild(QCheckBox, "showCpusBox").toggle()
    assert taken[-1].colours == chosen, "another change keeps it"


def test_text_size_and_folders_hold_for_menu_window_and_command_line(assemble, tmp_path):
    set_zoom(1.1)  # as the menu does; not applied, since restyling every widget takes seconds
    dialog = opened(assemble("preferences"))
    box = dialog.findChild(QComboBox, "textSizeBox")
    assert box.currentText() == "110 %"
    box.setCurrentText("100 %")
    assert zoom() == 1.0
    default = index.default_root()
    dialog.findChild(QPushButton, "runsFolderButton").click()
    chooser = dialog.findChild(QFileDialog, "folderDialog")
    chooser.fileSelected.emit(str(tmp_path))
    chooser.reject()
    assert index.default_root() == tmp_path
    dialog.findChild(QPushButton, "runsDefaultButton").click()
    assert index.default_root() == default
    folders.choose("presets", tmp_path / "kept")
    assert presets.default_root() == tmp_path / "kept"


def test_cpu_devices_can_be_hidden_beside_gpus_but_never_a_ticked_one(assemble, nvml):
    nvml.write(gpus=1)
    panel = assemble("devices", "preferences")
    panel.until(lambda: len(panel.devices) >= 3, "the devices")
    panel.tick("cpu:1")
    shows_cpus = opened(panel).findChild(QCheckBox, "showCpusBox")
    shows_cpus.setChecked(False)
    ids = [row.id for row in panel.devices]
    assert "cpu:1" in ids
    assert "cpu:0" not in ids
    assert panel.chosen.ticked == ("cpu:1",)
    shows_cpus.setChecked(True)
    assert "cpu:0" in [row.id for row in panel.devices]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"runs": 5}', '{"runs": "relative"}', '{"runs": "/a\\nb"}'])
def test_damaged_choice_of_folders_is_ignored(content):
    default = index.default_root()
    file = folders.config_folder() / "folders.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    assert index.default_root() == default


def test_newer_preferences_are_told_and_kept(assemble):
    keep(version=9, theme="sepia", tolerance_mb=99, sound="loud")
    panel = assemble("preferences")
    panel.until(lambda: "written by a newer Trainyard" in panel.message("messageStrip"), "the message")
    assert panel.window.findChild(QSpinBox, "releaseToleranceBox").value() == 99
    opened(panel).findChild(QSpinBox, "defaultToleranceBox").setValue(70)
    kept = SettingsFile().value(KEY, dict)
    assert (kept["sound"], kept["version"], kept["tolerance_mb"]) == ("loud", 9, 70)


@pytest.mark.parametrize(
    "values",
    [
        {"theme": 5},
        {"colours": "sepia"},
        {"tolerance_mb": -1},
        {"wait_s": "long"},
        {"show_cpus": 1},
        {"cuda_ids": None},
    ],
)
def test_senseless_values_have_their_defaults_and_are_named(values):
    keep(**values)
    file = PreferencesFile(SettingsFile())
    assert file.preferences == Preferences()
    assert next(iter(values)) in file.problem


def test_damaged_settings_file_is_told_and_kept_aside(drive):
    file = default_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content := b"{ no settings at all \xff\n[")
    panel = drive()
    panel.until(lambda: f"{file} is damaged, and was renamed" in panel.message("messageStrip"), "the message")
    panel.window.close()
    (kept,) = file.parent.glob("trainyard-damaged-*.json")
    assert kept.read_bytes() == content
    assert json.loads(file.read_text())["window/text_zoom"] == "1.0"
    assert SettingsFile().value("window/tabs", dict)["recipe"] == "events"


def test_preferences_of_another_kind_are_told_and_windows_keep_those_of_others():
    settings = SettingsFile()
    settings.save({KEY: "not what was written"})
    assert f"{KEY} in {default_file()} makes no sense" in PreferencesFile(settings).problem
    SettingsFile().save({KEY: {}})
    assert PreferencesFile(SettingsFile()).problem == ""
    one, other = SettingsFile(), SettingsFile()
    one.save({"a": {"b": 1}})
    other.save({"c": "d"})
    assert (one.value("c", str), other.value("a", dict)) == ("d", {"b": 1})


def test_file_that_cannot_be_read_or_is_damaged_meanwhile_is_left_to_the_user():
    content = json.dumps({"a": "b" * MAX_JSON_BYTES})
    default_file().parent.mkdir(parents=True, exist_ok=True)
    default_file().write_text(content)
    settings = SettingsFile()
    assert f"{default_file()} cannot be read" in PreferencesFile(settings).problem
    settings.save({KEY: {"theme": "light"}})
    assert default_file().read_text() == content
    assert PreferencesFile(SettingsFile()).preferences.theme == "light", "until the program ends"
    default_file().unlink()
    SettingsFile().save({})
    assert json.loads(default_file().read_text()) == {KEY: {"theme": "light"}}
    settings = SettingsFile()
    damaged = default_file().read_text().replace("}", ",}")
    default_file().write_text(damaged)
    settings.save({"a": "b"})
    assert (default_file().read_text(), settings.value("a", str)) == (damaged, "b")
    default_file().write_text(damaged.replace(",}", "}"))
    settings.save({})
    assert json.loads(default_file().read_text()) == {KEY: {"theme": "light"}, "a": "b"}


def test_file_that_is_a_link_stays_one(tmp_path):
    target = tmp_path / "kept elsewhere.json"
    target.write_text("{}")
    default_file().parent.mkdir(parents=True, exist_ok=True)
    default_file().symlink_to(target)
    SettingsFile().save({"a": "caf\udce9"})
    assert default_file().is_symlink()
    assert json.loads(target.read_text()) == {"a": "caf\udce9"}
    assert SettingsFile().value("a", str) == "caf\udce9", "a path that is not UTF-8"
