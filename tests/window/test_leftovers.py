"""Messages about leftover processes: which processes, why, and shown once."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractButton

from core.history.removal import OrphanedProcess
from core.schema.event_kinds import ProcessInfo
from core.system.processes import ProcessId
from core.text import first_names, one_line
from gui.base import formatting
from gui.features.memory import processes as process_rows
from gui.features.memory.processes import MemoryController
from gui.features.memory.tab import LeftoversStrip
from gui.window.panels import EVENTS_TAB, LOG_TAB, MEMORY_TAB, PROCESSES_TAB

SCRIPT = "python -c import time\n" + "print('a line')\n" * 150


def orphan(pid: int, run_id: str = "old", why: str = "Run old is over (finished).") -> OrphanedProcess:
    return OrphanedProcess(
        process=ProcessId(pid=pid, created=1.0), run_id=run_id, run_dir=None, name="python", command=SCRIPT, age_s=75,
        user="anna", memory_bytes=None, why=why,
    )


# -- texts ---------------------------------------------------------------------------------------


def test_long_name_list_ends_with_count():
    assert first_names(["A", "B", "C"], 3) == ["A", "B", "C"]
    assert first_names(["A", "B", "C", "D"], 2) == ["A", "B", "2 more"]
    assert first_names(["A", "B"], limit=1, more="{count} others") == ["A", "1 others"]
    assert process_rows.leftovers_sentence([orphan(1), orphan(2), orphan(3), orphan(4)], {"old": "mnist"}) == (
        "4 processes of the ended run mnist are still running: "
        "python (pid 1), python (pid 2), python (pid 3) and 1 more. They may use memory of a device."
    )


def test_fine_gigabytes_shows_small_values_in_hundredths():
    found = [formatting.fine_gigabytes(value) for value in (None, 0, 2**30 // 25, 9.1 * 2**30, 200 * 2**30)]
    assert found == ["–", "0", "0.04", "9.1", "200"]


def test_command_line_is_shortened_to_one_line_in_confirmation():
    assert one_line("a\n  b\tc", 10) == "a b c"
    assert one_line("a" * 20, 10) == "a" * 9 + "…"
    question, words = process_rows.leftovers_confirmation([orphan(1), orphan(2)])
    assert question == "End the leftover processes?"
    assert len(words.splitlines()) == 5
    process_info = ProcessInfo(pid=1, created=1.0, name="python", command=SCRIPT, age_s=5)
    row = process_rows.process_rows([process_rows.ProcessEntry(info=process_info, devices=())], {}, RUNS)[0]
    _, words = process_rows.confirmation(row)
    assert len(words.splitlines()) == 5  # including two empty lines
    assert "import time print('a line')" in words


RUNS = process_rows.KnownRuns(shown=None, names={}, living=frozenset())


def test_confirmation_gives_reason_for_each_run_once():
    _, words = process_rows.leftovers_confirmation(
        [orphan(1), orphan(2, "other", "The folder of run other is gone."), orphan(3)]
    )
    assert words.count("Run old is over (finished).") == 1
    assert "The folder of run other is gone." in words


# -- the strip -----------------------------------------------------------------------------------


class FakeOrphanScanner(QObject):
    """Stands in for the orphan scanner."""

    changed = Signal()
    found: tuple[OrphanedProcess, ...] = ()

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def finds(self, *found: OrphanedProcess) -> None:
        self.found = found
        self.changed.emit()


@pytest.fixture
def controller(parts, monkeypatch):
    monkeypatch.setattr("gui.features.memory.processes.OrphanScanner", FakeOrphanScanner)
    return MemoryController(*parts)


def test_dismissed_strip_stays_hidden_until_new_leftovers_appear(controller):
    strip, scanner = controller._strip, controller._orphans
    scanner.finds(orphan(1), orphan(2), orphan(3))
    assert not strip.isHidden()
    scanner.finds(orphan(1), orphan(2))
    assert not strip.isHidden()
    assert strip.text.startswith("2 processes")
    strip._dismiss.click()
    scanner.finds(orphan(2))
    assert strip.isHidden()
    assert strip.text.startswith("1 process ")
    scanner.finds(orphan(2), orphan(4))
    assert not strip.isHidden(), "a new leftover process shows the strip again"
    scanner.finds()
    assert strip.isHidden()


def test_tab_order_of_strip_buttons_matches_layout(qtbot):
    strip = LeftoversStrip()
    qtbot.addWidget(strip)
    chain, widget = [], strip.nextInFocusChain()
    while widget is not strip:
        chain.append(widget)
        widget = widget.nextInFocusChain()
    buttons = [each for each in chain if isinstance(each, QAbstractButton) and not each.isHidden()]
    assert [each.accessibleName() for each in buttons[-3:]] == [
        "Show these processes", "End these processes (asks first)", "Dismiss this message",
    ]


# -- the pages -----------------------------------------------------------------------------------


def test_only_visible_page_is_refreshed(controller, monkeypatch):
    filled = []
    monkeypatch.setattr(controller, "_show_memory", lambda: filled.append("Memory"))
    monkeypatch.setattr(controller, "_show_processes", lambda: filled.append("Processes"))
    details = controller._details
    details.window().show()
    for tab in (EVENTS_TAB, LOG_TAB, MEMORY_TAB, PROCESSES_TAB):
        details.tabs.setCurrentIndex(tab)
    assert filled == ["Memory", "Processes"]
    details.hide()
    details.tabs.setCurrentIndex(MEMORY_TAB)
    assert filled == ["Memory", "Processes"]
