"""The settings of notifications in the window: what is valid is kept at once, and a test says what became of it."""

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QApplication, QCheckBox, QLabel, QLineEdit, QPushButton, QSpinBox, QWidget

from core.notifications.channels import BUS_VARIABLE, OCCASIONS
from core.notifications.settings import NotificationSettings, load, save, settings_file
from gui.features.preferences.preferences import NotificationsDialog, PreferencesDialog
from tests.support.web_server import WebServer


@pytest.fixture
def dialog(assemble):
    """Return a function that opens the settings through the preferences."""

    def opened() -> NotificationsDialog:
        panel = assemble("preferences")
        panel.window.panels.menu.action("preferences").trigger()
        panel.window.findChild(QPushButton, "notificationsButton").click()
        found = panel.window.findChild(NotificationsDialog)
        found.panel = panel
        return found

    return opened


@pytest.fixture
def alone(hold):
    """Return a function that opens the settings without a window."""
    parent = hold(QWidget())

    def opened() -> NotificationsDialog:
        loaded = load()
        found = NotificationsDialog(parent, loaded.settings, loaded.problem)
        found.changed.connect(save)
        return found

    return opened


def enter(dialog, name: str, text: str) -> None:
    edit = dialog.findChild(QLineEdit, name)
    edit.setText(text)
    edit.editingFinished.emit()


def result(dialog) -> str:
    return dialog.findChild(QLabel, "notificationsResult").text()


def test_what_is_entered_is_kept_and_tested(dialog, monkeypatch):
    monkeypatch.setenv(BUS_VARIABLE, "unix:path=/nowhere")
    save(NotificationSettings(ntfy="https://ntfy.sh/old", min_duration_s=12.5))
    shown = dialog()
    panel = shown.panel
    with WebServer() as server:
        enter(shown, "ntfyEdit", "")
        enter(shown, "webhookEdit", f"http://{server.host}/hook")
        shown.findChild(QCheckBox, "stoppedOccasionBox").setChecked(False)
        assert load().settings == NotificationSettings(
            webhook=f"http://{server.host}/hook",
            occasions=tuple(each for each in OCCASIONS if each != "stopped"),
            min_duration_s=12.5,
        )
        shown.findChild(QSpinBox, "minDurationBox").setValue(60)
        assert load().settings.min_duration_s == 60
        button = shown.findChild(QPushButton, "testNotificationsButton")
        button.click()
        assert not button.isEnabled()
        assert result(shown) == "The test message is being sent …"
        panel.until(button.isEnabled, "the result")
    assert result(shown) == (
        "The test message was sent: Webhook.\n"
        "Desktop: The desktop's session bus cannot be reached: No such file or directory."
    )
    assert [post.path for post in server.posts] == ["/hook"]
    channels = panel.window.findChild(PreferencesDialog).findChild(QLabel, "notificationChannels")
    assert channels.text() == "Desktop and Webhook"


def test_malformed_address_is_explained_and_a_valid_one_hidden(alone):
    save(NotificationSettings(webhook="https://hooks.example.org/x"))
    shown = alone()
    enter(shown, "webhookEdit", "hooks.example.org/y")
    assert result(shown) == "The webhook's address must begin with https:// or http:// and a host."
    enter(shown, "appriseEdit", "nothing")
    assert "An address for Apprise must be SERVICE://..." in result(shown)
    shown.findChild(QPushButton, "testNotificationsButton").click()
    assert shown.findChild(QPushButton, "testNotificationsButton").isEnabled()  # nothing is sent
    enter(shown, "appriseEdit", "")
    enter(shown, "commandEdit", "true")
    assert load().settings == NotificationSettings(webhook="https://hooks.example.org/x", command="true")
    enter(shown, "webhookEdit", "https://hooks.example.org/y")
    assert result(shown) == ""
    assert load().settings.webhook == "https://hooks.example.org/y"
    save(NotificationSettings(webhook="https://hooks.example.org/x"))
    shown = alone()
    edit = shown.findChild(QLineEdit, "webhookEdit")
    assert edit.displayText() != edit.text()
    QApplication.sendEvent(edit, QFocusEvent(QEvent.Type.FocusIn))
    assert edit.displayText() == edit.text() == "https://hooks.example.org/x"
    QApplication.sendEvent(edit, QFocusEvent(QEvent.Type.FocusOut))
    assert edit.displayText() != edit.text()
    shown.findChild(QLineEdit, "ntfyEdit").setText("https://ntfy.sh/mine")
    assert load().settings.ntfy == ""
    shown.reject()
    assert load().settings.ntfy == "https://ntfy.sh/mine"


def test_file_that_is_damaged_or_cannot_be_written_is_told(dialog, tmp_path, monkeypatch):
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text("{")
    shown = dialog()
    assert "are damaged. Delete the file, then set them again." in result(shown)
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRAINYARD_CONFIG_DIR", str(tmp_path / "file"))
    shown.findChild(QCheckBox, "desktopBox").setChecked(False)
    assert "notifications.json could not be written: " in result(shown)


def test_tab_follows_the_order_of_the_rows(alone):
    dialog = alone()
    dialog.show()
    field, places = dialog.findChild(QCheckBox, "desktopBox"), []
    while field.objectName() != "testNotificationsButton":
        if field.focusPolicy() & Qt.FocusPolicy.TabFocus and field.isVisible():
            places.append(field.mapTo(dialog, QPoint(0, 0)).y())
        field = field.nextInFocusChain()
    assert len(places) > len(OCCASIONS)
    assert places == sorted(places)
