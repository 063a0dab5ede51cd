"""Windows and plots for tests, closed after them."""

import gc
import locale
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QLocale, QTranslator
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget
from pytestqt.qtbot import QtBot

from core import language
from core.history.index import directories
from core.hosts import ssh
from core.runs.facts import state_info
from core.runs.run import Run
from core.series.run_series import RunSeries
from gui.base.preferences import TRANSLATOR, PreferencesFile, choose_language
from gui.base.settings_file import SettingsFile
from gui.base.theme import DARK, look
from gui.base.timers import collect_due
from gui.features.memory import scanner as leftover_scanner
from gui.machine.machine import Machine
from gui.plots.registry import PLOTS
from gui.plots.run_plot import Plot
from gui.runs.actions import RunActions
from gui.window import features
from gui.window.features import Services
from gui.window.layout import DockLayout
from gui.window.panels import HeaderPanel, MainPanels
from tests.support.acting import ProcView
from tests.support.ssh_server import server, ssh_server  # noqa: F401 (fixtures)
from tests.support.waiting import PATIENCE_S, wait_until
from tests.window.driving import Driver, PartsDriver, apply_palette, remove_style
from tests.window.launching import Launcher
from tests.window.plotted import events

TRAINS = """\
import os
import sys
import time

for step in range(1, int(sys.argv[1]) + 1):
    print(f"step={step} loss={1 / step}", flush=True)
    time.sleep(0.01)
print("mine is", os.environ.get("MINE"), "in", os.getcwd())
"""


@pytest.fixture(scope="module", autouse=True)
def _fake_framework(fake_python: Path) -> Iterator[None]:
    """Use the fake worker for runs started from windows; load no framework."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_PYTHON_PYTORCH", str(fake_python))
        patch.setenv("TRAINYARD_PYTHON_TENSORFLOW", str(fake_python))
        yield


@pytest.fixture(scope="module", autouse=True)
def _english() -> Iterator[None]:
    """Open windows in English, whatever the language of the machine."""
    # Qt sets the locale of C libraries. Those keep the translations of errors, whatever LANGUAGE is afterwards.
    locale.setlocale(locale.LC_MESSAGES, "C")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANGUAGE", "en")
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_automatic_collection() -> Iterator[None]:
    """Switch it off from the first test with a window: a thread, also one of pytest-xdist, would end Qt's objects."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def own_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcView:
    """Let windows list and end leftover processes of their test only, and say nothing of those of others."""
    view = ProcView(tmp_path / "proc", f"TESTS_OF_TRAINYARD={tmp_path}")
    monkeypatch.setattr(leftover_scanner, "PROC", view.path)
    return view


@pytest.fixture(autouse=True)
def _style_sheet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply the palette of a theme without its style sheet, unless the test is marked `styled` or `--styled` is given.

    Qt takes long to style the widgets of a window.
    """
    look.theme = DARK
    if not request.node.get_closest_marker("styled") and not request.config.getoption("--styled"):
        remove_style()  # of an earlier test
        for module in ("gui.window.main_window", "gui.features.preferences.preferences"):
            monkeypatch.setattr(f"{module}.apply", apply_palette)


@pytest.fixture(autouse=True)
def _messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no message disappear by itself before a test has seen it."""
    monkeypatch.setattr("gui.widgets.messages.PASSING_MS", round(1000 * PATIENCE_S))


@pytest.fixture(autouse=True)
def _little_unsaved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Stop ask nothing, however long it took the test to get there."""
    monkeypatch.setattr("gui.runs.words.MUCH_S", 2 * PATIENCE_S)


@pytest.fixture
def patient_with_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up no host because it, or this machine, is slow."""
    for limit in ("connection.HELLO_S", "connection.ANSWER_S", "mirror.SILENT_S"):
        monkeypatch.setattr(f"core.hosts.{limit}", PATIENCE_S)
    monkeypatch.setattr("gui.machine.host_machine.ANSWER_S", PATIENCE_S)
    monkeypatch.setitem(ssh.OPTIONS, "ConnectTimeout", f"{PATIENCE_S:.0f}")


@pytest.fixture(autouse=True)
def feature_errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the titles of the features that fail, which a test that lets them fail empties; else it fails, too."""
    failed: list[str] = []
    log = features.log.exception
    monkeypatch.setattr(features.log, "exception", lambda text, title: (failed.append(title), log(text, title)))
    yield failed
    assert failed == []


def _make_parts(qtbot: QtBot, runs_root: Path) -> tuple[MainPanels, Services]:
    window = QMainWindow()
    qtbot.addWidget(window)
    panels = MainPanels(window)
    DockLayout(window, panels)
    return panels, Services(Machine(runs_root), window, PreferencesFile(SettingsFile()))


@pytest.fixture
def parts(qtbot: QtBot, runs_root: Path) -> Iterator[tuple[MainPanels, Services]]:
    """Return panels in an empty window, and services, with which a feature can be made."""
    panels, services = _make_parts(qtbot, runs_root)
    yield panels, services
    services.device_monitor.close()


@pytest.fixture(autouse=True)
def _windows_deleted(qapp: QApplication) -> Iterator[None]:
    """Delete the windows of each test after it, collect garbage, in the thread of the windows, and speak English again.

    Qt deletes only in an event loop. Each further window would apply its style sheet to the former ones, too.
    """
    yield
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    collect_due()
    if qapp.findChild(QTranslator, TRANSLATOR) is not None:  # a test may end in another language
        choose_language(qapp, language.ENGLISH)
        QLocale.setDefault(QLocale.system())
    language.use(language.ENGLISH)


@pytest.fixture
def drive(qtbot: QtBot, runs_root: Path) -> Iterator[Callable[[], Driver]]:
    """Return a function that opens a window on the test's runs. Close the windows and stop live runs afterwards."""
    drivers: list[Driver] = []

    def open_one() -> Driver:
        drivers.append(Driver(qtbot, runs_root))
        return drivers[-1]

    yield open_one
    for driver in drivers:
        driver.close()
    _end_runs(runs_root)


@pytest.fixture
def assemble(qtbot: QtBot, runs_root: Path) -> Iterator[Callable[..., PartsDriver]]:
    """Return a function that makes these features alone (names of `FEATURES`) on the test's runs, and drives them."""
    drivers: list[PartsDriver] = []

    def make(*names: str) -> PartsDriver:
        drivers.append(PartsDriver(qtbot, *_make_parts(qtbot, runs_root), names))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()
    _end_runs(runs_root)


@pytest.fixture
def form(assemble: Callable[..., PartsDriver]) -> PartsDriver:
    """What is chosen for a run: the list of devices, and the form whose choices are checked and started."""
    return assemble("start", "devices")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program that prints a loss for as many steps as its argument says."""
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(TRAINS)
    return path


@pytest.fixture
def launch() -> Iterator[Launcher]:
    """Return a function that starts processes, which are killed after the test."""
    launcher = Launcher()
    yield launcher
    launcher.close()


@pytest.fixture
def hold(qtbot: QtBot) -> Callable[..., QWidget]:
    """Return a function that keeps a widget until the end of the test, shows it if a size is given, and returns it."""
    held: list[QWidget] = []

    def until_the_end(widget: QWidget, *size: int) -> QWidget:
        qtbot.addWidget(widget)
        held.append(widget)
        if size:
            widget.resize(*size)
            with qtbot.waitExposed(widget):
                widget.show()
        return widget

    return until_the_end


@pytest.fixture
def header(hold: Callable[..., QWidget]) -> HeaderPanel:
    """The header of a window alone."""
    return hold(HeaderPanel(RunActions()))


@pytest.fixture
def run_series() -> RunSeries:
    """The series of the synthetic run."""
    series = RunSeries()
    series.fold(events())
    return series


@pytest.fixture
def plots(hold) -> dict[str, Plot]:
    """The plots that are always there, visible at 900 x 400 pixels."""
    return {row.name: hold(row.make(), 900, 400) for row in PLOTS if not row.optional}


@pytest.fixture
def loss(plots: dict[str, Plot]) -> Plot:
    return plots["lossPlot"]


@pytest.fixture
def utilisation(plots: dict[str, Plot]) -> Plot:
    return plots["utilisationPlot"]


@pytest.fixture
def memory(plots: dict[str, Plot]) -> Plot:
    return plots["memoryPlot"]


def _end_runs(runs_root: Path) -> None:
    runs = [Run.attach(run_dir) for run_dir in (directories(runs_root) if runs_root.is_dir() else [])]
    for run in runs:
        run.catch_up()
    # A synthetic run has no folder for requests and no processes.
    live = [run for run in runs if (run.dir / "control").is_dir() and not state_info(run.facts.state).over]
    for run in live:
        run.request("stop")
        run.request("force")
    for run in live:
        wait_until(lambda run=run: run.poll() is not None and state_info(run.facts.state).over, f"the end of {run.id}")
