"""What is said of what runs have left behind: who, why, and once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractButton

from core.runs.leftovers import OrphanedProcess
from core.system.process_info import ProcessInfo
from core.system.processes import ProcessId
from core.text import first_names
from gui.controllers.memory_controller import MemoryController
from gui.panels.details import DetailTabs
from gui.panels.memory.leftovers_strip import LeftoversStrip
from gui.services.process_scanner import ProcessScanner
from gui.services.process_terminator import ProcessTerminator
from gui.services.run_session import RunSession
from gui.style import formatting
from gui.style.theme import DARK
from gui.viewmodels.devices import process_rows

SCRIPT = "python -c import time\n" + "print('a line')\n" * 150


def left(pid: int, run_id: str = "old", why: str = "Run old is over (finished).") -> OrphanedProcess:
    return OrphanedProcess(
        process=ProcessId(pid=pid, created=1.0), run_id=run_id, run_dir=None, name="python", command=SCRIPT, age_s=75,
        user="anna", memory_bytes=None, why=why,
    )  # fmt: skip


# -- words ---------------------------------------------------------------------------------------


def test_names_and_how_many_more():
    assert first_names(["A", "B", "C"], 3) == ["A", "B", "C"]
    assert first_names(["A", "B", "C", "D"], 2) == ["A", "B", "2 more"]
    assert first_names(["A", "B"], 1, "others") == ["A", "1 others"]
    assert process_rows.leftovers_sentence([left(1), left(2), left(3), left(4)], {"old": "mnist"}) == (
        "4 processes of the ended run mnist are still running: "
        "python (pid 1), python (pid 2), python (pid 3) and 1 more. They may use memory of a device."
    )


def test_what_is_often_small_is_said_finely():
    found = [formatting.fine_gigabytes(value) for value in (None, 0, 2**30 // 25, 9.1 * 2**30, 200 * 2**30)]
    assert found == ["–", "0", "0.04", "9.1", "200"]


def test_a_command_line_takes_one_line_of_a_question():
    assert formatting.one_line("a\n  b\tc", 10) == "a b c"
    assert formatting.one_line("a" * 20, 10) == "a" * 9 + "…"
    question, told = process_rows.leftovers_confirmation([left(1), left(2)])
    assert question == "End the leftover processes?"
    assert len(told.splitlines()) == 5
    holder = ProcessInfo(pid=1, created=1.0, name="python", command=SCRIPT, age_s=5)
    row = process_rows.process_rows([process_rows.ProcessEntry(info=holder, devices=())], {}, RUNS)[0]
    _, told = process_rows.confirmation(row)
    assert len(told.splitlines()) == 5  # with two that are empty
    assert "import time print('a line')" in told


RUNS = process_rows.KnownRuns(shown=None, names={}, living=frozenset())


def test_every_run_that_left_something_behind_is_named_before_it_is_ended():
    _, told = process_rows.leftovers_confirmation(
        [left(1), left(2, "other", "The folder of run other is gone."), left(3)]
    )
    assert told.count("Run old is over (finished).") == 1
    assert "The folder of run other is gone." in told


# -- the strip -----------------------------------------------------------------------------------


class Sweeping(QObject):
    """Stands in for the sweeper."""

    changed = Signal()
    found: tuple[OrphanedProcess, ...] = ()

    def finds(self, *found: OrphanedProcess) -> None:
        self.found = found
        self.changed.emit()


@pytest.fixture
def insight(qtbot, tmp_path):
    strip, details = LeftoversStrip(DARK), DetailTabs(DARK)
    for each in (strip, details):
        qtbot.addWidget(each)
    board = SimpleNamespace(root=tmp_path, summaries=[], on_devices={})
    monitor = SimpleNamespace(survey=SimpleNamespace(devices=(), samples=()), old_s={})
    session = RunSession()
    services = SimpleNamespace(
        device_monitor=monitor,
        run_list=board,
        session=session,
        process_scanner=ProcessScanner(monitor, board, session),
        process_terminator=ProcessTerminator(),
        orphan_scanner=Sweeping(),
    )
    panels = SimpleNamespace(details=details, leftovers=strip, message=None, theme=DARK)
    return MemoryController(panels, services)


def test_a_strip_that_was_put_away_stays_away_while_leftovers_only_go(insight):
    strip, sweeper = insight._strip, insight._orphans
    sweeper.finds(left(1), left(2), left(3))
    assert not strip.isHidden()
    sweeper.finds(left(1), left(2))
    assert not strip.isHidden()
    assert strip.text.startswith("2 processes")
    strip._dismiss.click()
    sweeper.finds(left(2))
    assert strip.isHidden()
    assert strip.text.startswith("1 process ")
    sweeper.finds(left(2), left(4))
    assert not strip.isHidden(), "one that was not told of before is news"
    sweeper.finds()
    assert strip.isHidden()


def test_the_keyboard_goes_through_the_strip_as_the_eye_does(qtbot):
    strip = LeftoversStrip(DARK)
    qtbot.addWidget(strip)
    chain, widget = [], strip.nextInFocusChain()
    while widget is not strip:
        chain.append(widget)
        widget = widget.nextInFocusChain()
    buttons = [each for each in chain if isinstance(each, QAbstractButton) and not each.isHidden()]
    assert [each.accessibleName() for each in buttons[-3:]] == [
        "Show these processes", "End these processes (asks first)", "Dismiss this message",
    ]  # fmt: skip


# -- the pages -----------------------------------------------------------------------------------


def test_only_the_page_that_can_be_seen_is_filled(insight, monkeypatch):
    filled = []
    monkeypatch.setattr(insight, "_show_memory", lambda: filled.append("Memory"))
    monkeypatch.setattr(insight, "_show_processes", lambda: filled.append("Processes"))
    details = insight._details
    details.show()
    for tab in (0, 1, 2):
        details.tabs.setCurrentIndex(tab)
    assert filled == ["Memory", "Processes"]
    details.hide()
    details.tabs.setCurrentIndex(1)
    assert filled == ["Memory", "Processes"]
