"""The language of the window: chosen in the preferences, switched without a restart, complete, and readable."""

from __future__ import annotations

import re
import threading
from collections import Counter
from html import unescape

import pytest
from PySide6.QtCore import QLocale, Qt, QTimer
from PySide6.QtGui import QAction, QFont
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTabBar,
    QTableView,
    QWidget,
)

from core import language
from core.devices.cpu import cpu_devices
from gui.main_window import MainWindow
from gui.panels.window.preferences_dialog import PreferencesDialog
from gui.services.window.preferences import Preferences, PreferencesFile
from gui.services.window.settings_file import SettingsFile
from gui.style import window_language
from gui.style.window_language import can_show
from gui.widgets.dialogs.confirm_dialog import ConfirmDialog, ask
from gui.widgets.forms.fields import whole_number
from tests.support.pseudo_language import CODE, accented, write_pseudo_language
from tests.support.running import FOREVER
from tests.support.shared import made_once
from tests.support.tables import headings
from tests.window.clipping import clipped

WORD = re.compile(r"[A-Za-z]{3,}")
NAMES = """
    accelerate accuracy adamw and autocast bfloat bsd clause cnn compile cpu csv ctrl cuda data ddp delete
    digits dropout environment esc essentials float gpl gpu keras learning lgpl lightning loss main mit
    model momentum name nan nccl numpy nvidia only pid pipeline placement platformdirs powersgd psf pyqtgraph
    pyside python pytorch rate return shift sigint sigkill sigterm tensorboard tensorflow torch train trainyard
    transformers uuid val value vllm width zlib
"""
"""What is not translated: names of products, programs, metrics and parameters, keys, code, and folders of the tests."""
COPIED = ("PlainLabel settingsCommand", "RowsTable libraryTable")
"""Parts whose texts are commands, or come from packages."""
QTS_OWN = ("qt_", "Scroll")
"""Beginnings of the names of parts that Qt makes; Qt has no words of this language."""


@pytest.fixture(autouse=True)
def _english_afterwards():
    yield
    language.use(language.ENGLISH)


@pytest.fixture
def pseudo(tmp_path_factory, monkeypatch) -> str:
    """Return the code of a complete language whose words have accents."""
    monkeypatch.setattr(language, "FOLDER", made_once(tmp_path_factory, "languages", write_pseudo_language))
    return CODE


def switch(panel, code: str) -> None:
    """Choose a language in the preferences, and wait until the window speaks it."""
    window = panel.window
    window.findChild(QAction, "preferencesAction").trigger()
    box = window.findChild(PreferencesDialog).findChild(QComboBox, "languageBox")
    before = window.panels
    box.setCurrentIndex(box.findData(code))
    panel.until(lambda: window.panels is not before, "the other language")
    panel.find_parts()


def parts_of(window) -> Counter:
    """Return how many widgets of each kind and name, and how many timers, a window has."""
    beside = window.panels.leftovers  # it has more while tests beside this one have left processes behind
    found = [each for each in window.findChildren(QWidget) if not beside.isAncestorOf(each)]
    kinds = Counter(f"{type(each).__name__} {each.objectName()}" for each in found)
    del kinds["ReadingBar readingBar"]  # made for a run that is read for long, as on a slow machine
    return kinds + Counter(QTimer=len(window.findChildren(QTimer)))


@pytest.mark.slow
def test_switch_keeps_what_is_shown_and_chosen_and_leaves_nothing_behind(drive, pseudo, tmp_path):
    panel = drive()
    window = panel.window
    panel.resize(1300, 800)
    panel.tick("cpu:1")
    panel.set_number("epochsBox", FOREVER)
    panel.set_text("rateEdit", "0.125")
    panel.start()
    panel.until_state("Running")
    run_dir, size = window.services.session.run.dir, window.size()
    details = window.panels.details
    details.tabs.setCurrentIndex(1)
    threads = threading.active_count()
    switch(panel, pseudo)
    assert window.size() == size
    assert window.services.session.run.dir == run_dir
    assert window.panels.details.currentIndex() == 1
    assert window.panels.devices.table.ticked() == ("cpu:1",)
    assert window.panels.setup.choices().training["epochs"] == FOREVER
    assert window.panels.setup.choices().training["learning_rate"] == 0.125
    assert panel.state.text() == accented("Running")  # nothing has stopped it
    step = window.services.session.facts.step
    panel.until(lambda: window.services.session.facts.step > step, "the next steps")
    window.findChild(PreferencesDialog).close()
    panel.until(lambda: window.findChild(PreferencesDialog) is None, "the end of the dialog")
    parts = []
    for code in ("en", pseudo, "en"):  # PySide may take new objects for deleted ones
        switch(panel, code)
        window.findChild(PreferencesDialog).close()
        panel.until(lambda: window.findChild(PreferencesDialog) is None, "the end of the dialog")
        window.panels.header.again.run_menu.aboutToShow.emit()
        panel.until(lambda: window.services.session.opening is None, "the run to be read, which has a timer")
        parts.append(parts_of(window))
    assert panel.state.text() == "Running"
    # Not at once: work that a window has begun, such as another reading of the run, has a timer until it is done.
    panel.until(lambda: not parts_of(window) - parts[0], "the end of what is left of the former parts")
    panel.until(lambda: threading.active_count() <= threads, "the end of threads")
    window.close()
    assert PreferencesFile(SettingsFile()).preferences == Preferences(language="en")


def actions_of(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions()]


OWN_TEXTS = (
    (QLabel, lambda widget: [widget.text()]),
    (QAbstractButton, lambda widget: [widget.text()]),
    (QLineEdit, lambda widget: [widget.placeholderText()]),
    (QPlainTextEdit, lambda widget: [widget.placeholderText()]),
    (QComboBox, lambda widget: [widget.itemText(row) for row in range(widget.count())]),
    (QTabBar, lambda widget: [widget.tabText(tab) for tab in range(widget.count())]),
    (QMenu, actions_of),
    (QTableView, headings),
)
ROLES = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole)


def items_of(view: QAbstractItemView) -> list[str]:
    model = view.model()
    columns = model.columnCount() if isinstance(view, QTableView) else 1
    cells = [model.index(row, column) for row in range(model.rowCount()) for column in range(columns)]
    return [str(model.data(cell, role) or "") for cell in cells for role in ROLES]


def texts(window: QWidget):
    """Return everything in a window that is shown or spoken, with where it is."""
    for widget in window.findChildren(QWidget):
        found = [widget.toolTip(), widget.accessibleName(), widget.accessibleDescription()]
        for kind, read in OWN_TEXTS:
            found += read(widget) if isinstance(widget, kind) else []
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            found += items_of(widget)
        for text in filter(None, found):
            yield f"{type(widget).__name__} {widget.objectName()}", unescape(re.sub(r"<[^>]*>", " ", text))


def words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(text)}


def english(window: QWidget) -> list[str]:
    # The names of processes that tests beside this one have left behind for a while.
    beside = {text for where, text in texts(window) if where.startswith("LeftoversStrip")}
    names = {*NAMES.split(), *words(" ".join(device.name for device in cpu_devices()))}
    return sorted(
        {
            f"{where}: {text[:120]!r}"
            for where, text in texts(window)
            if not where.split(" ")[1].startswith(QTS_OWN)
            and where not in COPIED
            and text not in {*language.available().values(), *beside}
            and words(re.sub(r"\S*[/_=]\S*", " ", text)) - names
        }
    )


@pytest.mark.slow
def test_no_english_sentence_is_left(drive, pseudo):
    panel = drive()
    panel.tick("cpu:0")
    panel.set_number("epochsBox", FOREVER)
    panel.start()
    panel.until_state("Running")
    switch(panel, pseudo)
    window = panel.window
    panel.until(lambda: panel.points("lossPlot") > 2, "points")
    found = english(window)
    panel.stop_button.click()
    panel.until_state(accented("Stopped"))
    for name in ("keysAction", "aboutAction"):
        window.findChild(QAction, name).trigger()
    details = window.panels.details
    for tab in range(details.tabs.count()):
        details.tabs.setCurrentIndex(tab)
        window.poll()
    panel.until(lambda: window.panels.details.memory.table.rows, "the bars of the memory")
    found += english(window)
    window.controllers.run.show_machine()
    found += english(window)
    assert not found, "\n".join(sorted(set(found)))


def test_language_of_the_desktop_is_the_default(drive, pseudo, monkeypatch):
    monkeypatch.setenv("LANGUAGE", pseudo)
    panel = drive()
    assert panel.state.text() == accented("No run")
    assert panel.window.panels.menu.file.title() == accented("&File")


def test_language_that_does_not_exist_is_english_and_named(drive, monkeypatch):
    monkeypatch.setenv("LANGUAGE", "zh_CN")
    file = PreferencesFile(SettingsFile())
    file.save(Preferences(language="xx_YY"))
    panel = drive()
    message = panel.window.panels.message
    panel.until(lambda: message.text, "the message")
    assert message.text == (
        "The preferences name the language 'xx_YY', which this version does not have. English is used."
    )
    assert panel.state.text() == "No run"
    panel.window.findChild(QAction, "preferencesAction").trigger()
    box = panel.window.findChild(PreferencesDialog).findChild(QComboBox, "languageBox")
    assert box.currentData() == "xx_YY"  # it stays the user's choice
    panel.window.close()
    assert PreferencesFile(SettingsFile()).preferences.language == "xx_YY"


def test_window_says_that_no_font_has_the_characters(drive, pseudo, monkeypatch):
    alone = QFont("DejaVu Sans")
    alone.setStyleStrategy(QFont.StyleStrategy.NoFontMerging)
    assert can_show("Trainyard", alone)
    assert not can_show("\u7b80\u4f53\u4e2d\u6587", alone)
    monkeypatch.setattr(window_language, "can_show", lambda text, font: False)
    PreferencesFile(SettingsFile()).save(Preferences(language=pseudo))
    panel = drive()
    message = panel.window.panels.message
    panel.until(lambda: message.text, "the message")
    assert message.text.startswith(f"No font of this machine has the characters of the language {pseudo}. Install one")


def test_number_fields_have_plain_digits_in_every_language(qtbot):
    before = QLocale()
    QLocale.setDefault(QLocale("ar_EG"))
    try:
        box = whole_number("box", "Box", "", minimum=0, value=12345)
        qtbot.addWidget(box)
        assert box.text() == "12345"
    finally:
        QLocale.setDefault(before)


@pytest.mark.styled
@pytest.mark.slow
def test_no_chinese_text_is_clipped(drive, nvml):
    nvml.write(gpus=4)
    PreferencesFile(SettingsFile()).save(Preferences(language="zh_CN"))
    panel = drive()
    window = panel.window
    panel.resize(1100, 700)
    panel.until(lambda: panel.table.rowCount() >= 5, "the devices")
    panel.until(lambda: not clipped(window), f"the texts, but {clipped(window)}")
    panel.tick("cpu:0")
    panel.set_number("epochsBox", FOREVER)
    panel.start()
    panel.until(lambda: panel.state.text() == "运行中" and panel.points("lossPlot") > 2, "the run")
    details = window.panels.details
    for tab in range(details.tabs.count()):
        if details.tabs.isTabVisible(tab):
            details.tabs.setCurrentIndex(tab)
            panel.until(lambda: not clipped(window), f"the texts of the tab {details.tabs.tabText(tab)}")
    window.panels.setup.all_settings.click()
    panel.until(lambda: not clipped(window), "the texts of all settings")
    window.findChild(QAction, "preferencesAction").trigger()
    dialog = window.findChild(PreferencesDialog)
    panel.until(lambda: not clipped(dialog), "the texts of the preferences")


@pytest.mark.slow
def test_switch_waits_for_the_answer_to_a_question(drive, pseudo, monkeypatch):
    tries, change = [], MainWindow.change_language
    monkeypatch.setattr(MainWindow, "change_language", lambda self: (tries.append(True), change(self)))
    panel = drive()
    window = panel.window
    before, answers = window.panels, []
    ask(window, lambda: answers.append("yes"), question="Delete the run?", words="", yes="Delete it")
    question = window.findChild(ConfirmDialog)
    window.findChild(QAction, "preferencesAction").trigger()
    box = window.findChild(PreferencesDialog).findChild(QComboBox, "languageBox")
    box.setCurrentIndex(box.findData(pseudo))
    panel.until(lambda: len(tries) > 3, "tries to switch")
    assert window.panels is before
    question.yes.click()
    panel.until(lambda: window.panels is not before, "the other language")
    assert answers == ["yes"]
