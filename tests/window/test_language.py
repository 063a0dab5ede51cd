"""The language of the window: chosen in the preferences, shown by another window, complete, and readable."""

import re
import threading
from collections.abc import Callable
from html import unescape

import pytest
from PySide6.QtCore import QLocale, Qt, QTimer
from PySide6.QtGui import QAction, QFont
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
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
from gui.base import preferences as window_language
from gui.base.jobs import Jobs
from gui.base.preferences import Preferences, PreferencesFile, can_show, choose_language
from gui.base.settings_file import SettingsFile
from gui.features.hosts import HostsDialog
from gui.features.preferences.preferences import PreferencesDialog
from gui.features.runlist.history import QueueController
from gui.plots.area import PlotArea
from gui.widgets.dialogs import ConfirmDialog, ask
from gui.widgets.fields import whole_number
from gui.window.main_window import RETRY_MS, MainWindow
from gui.window.panels import MainPanels
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


@pytest.fixture
def pseudo(tmp_path_factory, monkeypatch) -> str:
    """Return the code of a complete language whose words have accents."""
    monkeypatch.setattr(language, "FOLDER", made_once(tmp_path_factory, "languages", write_pseudo_language))
    return CODE


def windows() -> list[MainWindow]:
    return [each for each in QApplication.topLevelWidgets() if isinstance(each, MainWindow)]


@pytest.mark.slow
def test_another_language_keeps_what_is_shown_and_chosen_and_leaves_nothing_behind(drive, pseudo, tmp_path):
    panel = drive()
    panel.resize(1300, 800)
    panel.tick("cpu:1")
    panel.set_number("epochsBox", FOREVER)
    panel.set_text("rateEdit", "0.125")
    panel.start()
    panel.until_state("Running")
    panel.window.findChild(QLineEdit, "runFilter").setText("digits")
    run_dir, size = panel.run.dir, panel.window.size()
    panel.open_tab("Log")
    panel.until(lambda: panel.window.services.device_monitor.series.has_readings, "readings of the devices")
    series = panel.window.services.device_monitor.series
    threads = threading.active_count()
    panel.until_replaced(pseudo)
    window = panel.window
    assert window.size() == size
    assert panel.run.dir == run_dir
    assert window.panels.details.tabs.tabText(window.panels.details.currentIndex()) == accented("Log")
    assert window.findChild(QLineEdit, "runFilter").text() == "digits"
    assert window.panels.devices.chosen.ticked == ("cpu:1",)
    assert window.panels.setup.choices().training["epochs"] == FOREVER
    assert window.panels.setup.choices().training["learning_rate"] == 0.125
    assert window.services.device_monitor.series is series
    assert panel.state.text() == accented("Running")  # nothing has stopped it
    step = window.services.session.facts.step
    panel.until(lambda: window.services.session.facts.step > step, "the next steps")
    window.findChild(PreferencesDialog).close()
    QApplication.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Dark)  # no deleted window hears of it
    for code in ("en", pseudo, "en"):
        panel.until_replaced(code)
    panel.until(lambda: windows() == [panel.window], "the end of the former windows")
    panel.until(lambda: panel.state.text() == "Running", "the run")
    panel.until(lambda: threading.active_count() <= threads, "the end of threads")
    panel.window.controllers.run.show_machine()
    panel.until_replaced(pseudo)
    polled = []
    panel.window.services.poll_timer.timeout.connect(lambda: polled.append(True))
    panel.until(lambda: len(polled) > 3 and panel.runs.count() == 1, "polls of the other window")
    assert panel.run is None, "no run was shown"
    former = panel.window
    former.replaced.connect(lambda _: QTimer.singleShot(0, former, former.close))  # as Ctrl-C does
    panel.until_replaced("en")
    panel.until(lambda: not panel.window.isVisible(), "the end of the window that has taken the place")
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
    panel.until_replaced(pseudo)
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


def test_language_of_the_desktop_is_the_default_and_one_that_cannot_be_is_a_sentence(qapp, pseudo, monkeypatch):
    monkeypatch.setenv("LANGUAGE", pseudo)
    assert (choose_language(qapp, ""), language.current()) == ("", pseudo)
    assert choose_language(qapp, "xx_YY") == (
        "The preferences name the language 'xx_YY', which this version does not have. English is used."
    )
    assert language.current() == "en"
    alone = QFont("DejaVu Sans")
    alone.setStyleStrategy(QFont.StyleStrategy.NoFontMerging)
    assert can_show("Trainyard", alone)
    assert not can_show("\u7b80\u4f53\u4e2d\u6587", alone)
    monkeypatch.setattr(window_language, "can_show", lambda text, font: False)
    problem = choose_language(qapp, pseudo)
    assert problem.startswith(f"No font of this machine has the characters of the language {pseudo}. Install one")
    choose_language(qapp, "en")


def test_window_says_that_its_language_does_not_exist_and_keeps_the_choice(drive, monkeypatch):
    monkeypatch.setenv("LANGUAGE", "zh_CN")
    PreferencesFile(SettingsFile()).save(Preferences(language="xx_YY"))
    panel = drive()
    panel.until(lambda: panel.message("messageStrip").startswith("The preferences name the language 'xx_YY'"), "why")
    assert panel.state.text() == "No run"
    panel.window.findChild(QAction, "preferencesAction").trigger()
    box = panel.window.findChild(PreferencesDialog).findChild(QComboBox, "languageBox")
    assert box.currentData() == "xx_YY"
    panel.window.close()
    assert PreferencesFile(SettingsFile()).preferences.language == "xx_YY"


def test_number_fields_have_plain_digits_in_every_language(hold):
    before = QLocale()
    QLocale.setDefault(QLocale("ar_EG"))
    try:
        box = hold(whole_number("box", "Box", "", minimum=0, value=12345))
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
    panel.until(lambda: len(panel.devices) >= 5, "the devices")
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
def test_another_language_waits_until_nothing_would_be_cut_and_a_closed_window_stays_closed(drive, pseudo, monkeypatch):
    tries, change, ended = [], MainWindow.change_language, []
    monkeypatch.setattr(MainWindow, "change_language", lambda self: (tries.append(True), change(self)))
    panel = drive()

    def work() -> Callable[[], None]:
        gate = threading.Event()
        Jobs(panel.window, "export", guards=True).start(gate.wait, ended.append, ended.append)
        return gate.set

    def question() -> Callable[[], None]:
        ask(panel.window, lambda: ended.append("yes"), question="Delete the run?", words="", yes="Delete it")
        return panel.window.findChild(ConfirmDialog).yes.click

    def dialog_of_hosts() -> Callable[[], None]:
        panel.window.findChild(QAction, "hostsAction").trigger()
        dialog = panel.window.findChild(HostsDialog)
        return lambda: ended.append(dialog.close())

    for begin, before, code in ((question, "en", pseudo), (work, pseudo, "en"), (dialog_of_hosts, "en", pseudo)):
        window, end = panel.window, begin()
        for each in (code, before, code):
            panel.choose_language(each)
        tries.clear()
        panel.until(lambda: len(tries) > 5, "tries to change the language")
        assert panel.window is window
        end()
        panel.until(lambda window=window: panel.window is not window, "the other language")
        panel.until(lambda: windows() == [panel.window], "one window, however often the language was chosen")
    assert len(ended) == 3
    window, end = panel.window, work()
    panel.choose_language("en")
    window.close()
    end()
    looks = []
    QTimer.singleShot(3 * RETRY_MS, lambda: looks.append(True))
    panel.until(lambda: looks, "the next try")
    assert panel.window is window
    assert not window.isVisible()


@pytest.mark.slow
def test_language_in_which_no_window_can_be_made_is_not_kept(drive, pseudo, monkeypatch, caplog, feature_errors):
    panel = drive()
    before, message = panel.window, panel.window.panels.message
    for part in ((MainPanels, "__init__"), (PlotArea, "create_plots"), (QueueController, "set_up")):
        whole = getattr(*part)

        def broken(self, *given, make=whole):
            make(self, *given)
            if language.current() == pseudo:
                raise KeyError("a field that its sentence does not have")

        with monkeypatch.context() as patch:
            patch.setattr(*part, broken)
            panel.choose_language(pseudo)
            panel.until(lambda: message.text, f"the message on {part}")
        assert message.text.startswith(
            f"The window cannot be shown in the language {pseudo}, and keeps its own. Something went wrong in the "
        )
        assert "a field that its sentence does not have" in caplog.text
        assert panel.window is before
        assert [each for each in windows() if each.isVisible()] == [before]
        assert before.findChild(PreferencesDialog).findChild(QComboBox, "languageBox").currentData() == ""
        assert PreferencesFile(SettingsFile()).preferences.language == ""
        message.clear()
        caplog.clear()
    panel.tick("cpu:0")
    panel.until_ready()
    feature_errors.clear()
