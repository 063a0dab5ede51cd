"""The processes tab: own processes are ended after confirmation, those of others never; leftover processes."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QAbstractButton, QLabel, QPushButton

from core.devices.device import Device, Process, Sample, Survey
from core.history import removal
from core.history.removal import OrphanedProcess
from core.runs.facts import RunState
from core.schema.event_kinds import ProcessInfo
from core.system import processes, procfs, terminate
from core.system.processes import ProcessId
from core.text import first_names, one_line
from gui.base import formatting
from gui.features.memory.processes import (
    KnownRuns,
    MemoryController,
    ProcessEntry,
    ProcessesTab,
    ProcessRow,
    confirmation,
    heads,
    process_rows,
    why_not_end,
)
from gui.features.memory.scanner import (
    ProcessUsage,
    _described,
    _usage,
    end_one,
    family,
    leftovers_confirmation,
    leftovers_sentence,
)
from gui.features.memory.tab import LeftoversStrip
from gui.widgets.table import RowsTable
from gui.window.panels import EVENTS_TAB, LOG_TAB, MEMORY_TAB, PROCESSES_TAB
from tests.support.acting import CHILD, STUBBORN_CHILD, abandon, played
from tests.support.recorded import GB
from tests.support.running import start
from tests.support.tables import cell, cells, headings
from tests.support.two_users import OTHER_UID
from tests.support.waiting import PATIENCE_S, wait_until
from tests.window.launching import WAITS

RUNS = KnownRuns(shown="this", names={"this": "digits", "old": "mnist"}, living=frozenset({"this"}))
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
NO_PID = 4194999
"""Above the kernel's limit (PID_MAX_LIMIT, 2^22): no process has it."""


def process_entry(**values):
    defaults = {"pid": 4711, "created": 1.0, "name": "python", "user": "anna", "state": "S", "ours": True}
    return ProcessEntry(info=ProcessInfo(**{**defaults, **values}), devices=())


# -- the rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, ""),
        ({"ours": False}, "It belongs to anna; only that user can end it."),
        ({"name": None, "created": None}, "is unknown here"),
        ({"run_id": "this"}, "It belongs to the active run digits"),
        ({"run_id": "old"}, "may still be active"),
        ({"pid": os.getpid()}, "is part of Trainyard"),
        ({"command": "python -m core.supervisor /runs/x"}, "is part of Trainyard"),
        ({"state": "Z"}, "has already ended"),
    ],
)
def test_reason_why_process_cannot_be_ended(known, words):
    found = why_not_end(process_entry(**known), RUNS)
    assert words in found
    assert bool(words) == bool(found)


def test_leftover_of_ended_run_can_be_ended():
    process = processes.ProcessId(pid=4711, created=1.0)
    orphan = removal.OrphanedProcess(
        process=process, run_id="old", run_dir=None, name="python", command="python", age_s=1, user="anna",
        memory_bytes=None, why="Its run is over.",
    )
    assert why_not_end(replace(process_entry(run_id="old"), leftover=orphan), RUNS) == ""


def gpu(number: int, **values) -> Device:
    defaults = {"kind": "nvidia", "label": f"GPU {number}", "name": "NVIDIA H100", "memory_total_bytes": 80 * GB}
    return Device(id=f"GPU-{number}", **{**defaults, **values})


SHARED, DUAL, IDLE, SLEEPING, SILENT, OLD = (gpu(number) for number in (2, 10, 3, 4, 5, 6))
SURVEY = Survey(
    devices=(SHARED, IDLE, SLEEPING, SILENT, OLD, DUAL, gpu(7),
             Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon")),
    samples=(
        Sample(device_id=SHARED.id, time=1, utilisation_percent=61.0, memory_used_bytes=5 * GB,
               processes=(Process(2),)),
        Sample(device_id=DUAL.id, time=1, utilisation_percent=98.0, memory_used_bytes=10 * GB,
               processes=(Process(2, 9 * GB, 98.0),)),
        *(Sample(device_id=each.id, time=1, processes=()) for each in (IDLE, gpu(7))),
        Sample(device_id=SLEEPING.id, time=1, asleep=True), Sample(device_id=SILENT.id, time=1),
        Sample(device_id=OLD.id, time=1, processes=()),
    ),
)
"""Two GPUs with processes, two without, one that sleeps, one whose driver lists none, one with outdated readings."""


def test_rows_are_below_their_gpu_sort_within_it_and_end_with_the_gpus_without_a_process(hold):
    usage = ProcessUsage(started_ticks=1, cpu_ticks=1, at=1.0, resident_bytes=2 * GB, cpu_percent=212.4)
    entries = [
        process_entry(pid=1, memory_used_bytes=None, age_s=None),
        replace(process_entry(pid=2, memory_used_bytes=10 * GB, age_s=75, run_id="this"), usage=usage,
                devices=(DUAL.id, SHARED.id), on_gpus={DUAL.id: 9 * GB, SHARED.id: GB}),
        process_entry(pid=3, memory_used_bytes=340 * 2**20, age_s=5),
        ProcessEntry(info=ProcessInfo(pid=4, memory_used_bytes=3 * GB), devices=(SHARED.id,),
                     on_gpus={SHARED.id: 3 * GB}),
    ]
    labels = {SHARED.id: "GPU 2", DUAL.id: "GPU 10"}
    rows = process_rows(entries, labels, RUNS, dict.fromkeys(labels, "#ffffff"), SURVEY)
    tab = hold(ProcessesTab(), 900, 400)
    tab.show_rows([*rows, *heads(rows, SURVEY, {OLD.id: 9})], empty="", problem="")
    assert cells(tab.table) == [
        ("GPU 2", "", "61 %", "5.0 / 80 GB", "", "", "", "", "H100"),
        ("pid 4", "–", "–", "3.0 GB", "–", "–", "–", "–", "in a container, or already ended"),
        ("python 2", "anna", "–", "1.0 GB", "2.0 GB", "212 %", "1:15", "this run", "–"),
        ("GPU 10", "", "98 %", "10.0 / 80 GB", "", "", "", "", "H100"),
        ("python 2", "anna", "98 %", "9.0 GB", "2.0 GB", "212 %", "1:15", "this run", "–"),
        ("On no known device", "", "", "", "", "", "", "", ""),
        ("python 3", "anna", "–", "340 MB", "–", "–", "5 s", "", "–"),
        ("python 1", "anna", "–", "–", "–", "–", "–", "", "–"),
        ("GPU 3 and 7: no process", "", "", "", "", "", "", "", ""),
        ("GPU 4: asleep", "", "", "", "", "", "", "", ""),
        ("GPU 5 and 6: processes not known", "", "", "", "", "", "", "", ""),
    ]
    for at in (at for at, row in enumerate(tab.table.rows) if row.head):
        text, font = (cell(tab.table, at, 0, role) for role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.FontRole))
        room = tab.table.visualRect(tab.table.model().index(at, 0)).width()
        assert room > QFontMetrics(font).horizontalAdvance(text), "it takes the empty cells beside it"
    tips = {name: cell(tab.table, 1, tab.table.place(name), Qt.ItemDataRole.ToolTipRole)
            for name in ("share_percent", "cpu_percent", "run")}
    assert "The driver does not tell this of the process." in tips.pop("share_percent")
    assert all("only the user of the process may read it" in each for each in tips.values())
    assert [row.of_this_run for row in tab.table.rows].count(True) == 2
    tab.choose_device(DUAL.id)
    assert tab.table.chosen_number() == 4
    QPushButton(tab).show()  # the next one that Tab leads to
    tab.table.selectRow(6)
    tab.end_button.setFocus()
    assert tab.focusWidget() is tab.end_button
    tab.table.selectRow(3)
    assert (tab.end_button.isEnabled(), tab.end_button.toolTip()) == (False, "Select a process first")
    assert tab.focusWidget() is tab.table, "the focus stays in the card when the button is disabled"
    orders = {}
    for at, heading in enumerate(heading.rstrip(" ▾▴") for heading in headings(tab.table)):
        tab.table.sort_by(at)
        orders[heading] = [row.info.pid for row in tab.table.rows]
    by_memory, by_usage = [0, 4, 2, 0, 2, 0, 3, 1, 0, 0, 0], [0, 2, 4, 0, 2, 0, 3, 1, 0, 0, 0]
    assert orders == {
        "Process": [0, 2, 4, 0, 2, 0, 1, 3, 0, 0, 0], **dict.fromkeys(("% SM", "Memory", "Command"), by_memory),
        **dict.fromkeys(("Owner", "Host", "CPU", "Time", "Whose run"), by_usage),
    }


MANY = 300


@pytest.fixture
def family_tree(launch) -> Iterator[tuple[int, int, list[int]]]:
    """A process that leads a session, its child, and the many children of that."""
    inner = f"for each in $(seq {MANY}); do sleep 3600 & done; echo; wait"
    leader = launch(command=["sh", "-c", f"sh -c '{inner}'; :"], start_new_session=True)
    [parent] = procfs.children(leader.pid)
    wait_until(lambda: {procfs.stat(each).name for each in procfs.children(parent)} == {"sleep"}, "all to be started")
    yield leader.pid, parent, procfs.children(parent)
    os.killpg(leader.pid, signal.SIGKILL)


def test_three_hundred_processes_on_a_gpu_are_listed_and_the_family_of_the_selected_one_is_named(hold, family_tree):
    leader, parent, children = family_tree
    found = _described([(SHARED.id, Process(pid, GB)) for pid in (parent, *children)], ())
    usage = _usage([each.pid for each in found], {})
    entries = [ProcessEntry(info=each, devices=(SHARED.id,), on_gpus={SHARED.id: GB}, usage=usage[each.pid])
               for each in found]
    rows = process_rows(entries, {SHARED.id: "GPU 2"}, RUNS, {}, SURVEY)
    tab = hold(ProcessesTab(), 900, 400)
    tab.show_rows([*rows, *heads(rows, SURVEY, ())], empty="", problem="")
    shown = cells(tab.table)
    assert [texts[0] for texts in shown if texts[0].startswith("GPU 2")] == ["GPU 2"]
    assert {texts[0] for texts in shown} >= {f"sleep {pid}" for pid in children}
    assert all("–" not in (owner, host) for name, owner, _, _, host, *_ in shown if name.startswith("sleep "))
    places = {row.info.pid: at for at, row in enumerate(tab.table.rows)}
    tab.table.selectRow(places[parent])
    first = " and ".join([", ".join(f"sleep {each}" for each in children[:2]), f"sleep {children[2]}"])
    first = first.replace(" and ", ", ") + f" and {MANY - 3} more"
    assert tab.words.text() == f"Started by sh {leader}. {MANY} children: {first}."
    tab.table.selectRow(places[children[-1]])
    assert tab.words.text() == f"Started by sh {leader} › sh {parent}."
    tab.table.scrollToBottom()
    last = tab.table.visualRect(tab.table.model().index(len(shown) - 1, 0))
    assert tab.table.viewport().rect().contains(last.center())
    gone = ProcessInfo(pid=children[-1], created=1.0)
    assert family(gone) == "", "another process has its pid now"


# -- the table -----------------------------------------------------------------------------------


def table(panel) -> RowsTable[ProcessRow]:
    return panel.window.findChild(RowsTable, "processTable")


def pids(panel) -> list[int]:
    return [row.info.pid for row in table(panel).rows]


def select(panel, pid: int) -> QPushButton:
    """Select the row of a process. Return the button that ends it."""
    panel.until(lambda: pid in pids(panel), f"process {pid} in the table")
    table(panel).selectRow(pids(panel).index(pid))
    return panel.window.findChild(QPushButton, "endProcess")


def on_gpu(nvml, *held: str) -> None:
    nvml.write(gpus=1, gpu0={"memory_used": 12 * GB, "compute": ",".join(held)})


@pytest.mark.slow
def test_processes_of_run_on_cpu_device_are_listed_but_cannot_be_ended(assemble, runs_root, tmp_path, own_processes):
    followed = start(played(tmp_path / "actor"), runs_root).until(RunState.RUNNING)
    panel = assemble("run", "memory", "devices")
    panel.until_state("Running")
    panel.open_tab("Processes")
    worker = followed.run.facts.workers[0].process.pid
    button = select(panel, worker)
    row = pids(panel).index(worker)
    texts = cells(table(panel))[row]
    assert "python" in texts[0] + texts[8]
    assert cell(table(panel), row - 1, 0) == "CPU 0"
    assert texts[7] == "this run"
    assert "B" in texts[3]
    assert cell(table(panel), row, 0, Qt.ItemDataRole.FontRole).bold()
    assert not button.isEnabled()
    assert "stop that run instead" in panel.window.findChild(QLabel, "processWords").text()
    panel.qtbot.keyClick(table(panel), Qt.Key.Key_Delete)
    assert panel.question() is None
    panel.stop()
    panel.until_state("Stopped")
    panel.until(lambda: worker not in pids(panel), "the worker to leave the table")


@pytest.mark.slow
@pytest.mark.two_users
def test_process_of_another_user_is_listed_but_cannot_be_ended(assemble, nvml, launch, own_processes, monkeypatch):
    foreign = launch(command=["sh", "-c", "echo; exec sleep 3600"], user=OTHER_UID)
    monkeypatch.setattr(os, "getuid", lambda: 1000)  # pretend not to be root, which could end it
    on_gpu(nvml, f"{foreign.pid}:{6 * GB}")
    panel = assemble("run", "memory", "devices")
    panel.open_tab("Processes")
    button = select(panel, foreign.pid)
    assert not button.isEnabled()
    user = cell(table(panel), pids(panel).index(foreign.pid), 1)
    assert cell(table(panel), pids(panel).index(foreign.pid), table(panel).place("run")) == "–"
    assert f"belongs to {user}" in panel.window.findChild(QLabel, "processWords").text()
    panel.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    panel.qtbot.keyClick(table(panel), Qt.Key.Key_Delete)
    assert panel.question() is None
    assert foreign.poll() is None


@pytest.mark.slow
def test_unknown_pid_is_listed_and_an_own_process_ended_after_confirmation(
    assemble, nvml, own_processes, launch, monkeypatch
):
    on_gpu(nvml, f"{NO_PID}:{6 * GB}")
    panel = assemble("run", "memory", "devices")
    panel.open_tab("Processes")
    button = select(panel, NO_PID)
    assert not button.isEnabled()
    assert "in a container" in panel.window.findChild(QLabel, "processWords").text()
    panel.until(lambda: f"used by pid {NO_PID}" in panel.devices[0].status, "the pid in the row of its device")
    monkeypatch.setattr(terminate, "GRACE_S", PATIENCE_S)  # it ends by SIGTERM, however long that takes
    target, bystander = launch(), launch()
    on_gpu(nvml, f"{target.pid}:{6 * GB}", f"{bystander.pid}:{2 * GB}")
    button = select(panel, target.pid)

    def shares() -> list[object]:
        shown = table(panel)
        return [cell(shown, pids(panel).index(each.pid), shown.place("share_percent")) for each in (target, bystander)]

    for settings, expected in (({"shares": f"{target.pid}:70"}, ["70 %", "0 %"]),
                               ({"unsupported": "process_utilisation"}, ["–", "–"])):
        nvml.write(gpu0=settings)
        panel.until(lambda expected=expected: shares() == expected, "the shares, which an old driver does not tell")
    assert button.isEnabled()
    panel.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    asked = panel.asked().text
    assert f"(pid {target.pid})" in asked
    assert WAITS in asked
    assert "6.0 GB" in asked
    panel.answer("noButton")
    panel.until(lambda: panel.question() is None)
    assert target.poll() is None
    panel.qtbot.keyClick(table(panel), Qt.Key.Key_Delete)  # ask again, with the keyboard
    panel.answer("yesButton")
    panel.until(lambda: target.poll() is not None, "the process to exit")
    assert target.returncode == -signal.SIGTERM
    panel.until(lambda: f"(pid {target.pid})" in panel.message("messageStrip"), "the result")
    assert bystander.poll() is None


@pytest.mark.styled
def test_processes_are_scanned_while_a_tab_shows_them_and_none_are_told(assemble, own_processes):
    panel = assemble("run", "memory", "devices")
    scanner = panel.window.services.process_scanner
    assert scanner._scanned_at == float("-inf")
    panel.open_tab("Memory")
    panel.until(lambda: scanner._scanned_at > 0, "a scan")
    panel.open_tab("Log")
    panel.until(lambda: not scanner._scanning.busy, "the scan to end")
    for _ in range(20):
        panel.poll()
        assert not scanner._scanning.busy
    panel.open_tab("Processes")
    words = panel.window.findChild(QLabel, "noProcesses")
    panel.until(lambda: words.isVisible() and words.text().startswith("No GPU was found"), "the message")
    panel.window.resize(1100, 700)
    panel.until(lambda: words.height() >= words.heightForWidth(words.width()), "the whole message to be visible")
    assert words.heightForWidth(words.width()) > words.heightForWidth(2000), "the message takes more than one line"


# -- ending --------------------------------------------------------------------------------------


def test_only_the_listed_process_is_ended_by_force_if_need_be(launch):
    stubborn, other, tagged = launch(IGNORES_SIGTERM), launch(), launch(env={**os.environ, "TRAINYARD_RUN": "a-run"})
    sentence, tone = end_one(processes.describe(stubborn.pid), grace_s=0.2)
    assert (f"(pid {stubborn.pid}) was ended (SIGKILL)." in sentence, tone) == (True, "good")
    sentence, _ = end_one(replace(processes.describe(other.pid), created=12.5))  # its pid was used again
    assert sentence.endswith("has ended.")
    sentence, tone = end_one(replace(processes.describe(tagged.pid), run_id=None))  # it has joined a run
    assert (tone, "was not ended" in sentence) == ("bad", True)
    assert (other.poll(), tagged.poll()) == (None, None)


# -- leftovers -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("child", [CHILD, STUBBORN_CHILD], ids=["child", "stubborn child"])
def test_leftovers_are_shown_at_start_and_can_be_ended(assemble, runs_root, tmp_path, own_processes, child):
    followed = start(played(tmp_path, before=f"{CHILD}\n{child}"), runs_root).until_trained()
    fleeting, orphan = psutil.Process(followed.run.facts.workers[0].process.pid).children()
    leftover = processes.identify(orphan.pid)
    abandon(followed)
    own_processes.refresh()
    panel = assemble("run", "memory")
    strip = panel.window.findChild(LeftoversStrip, "leftoversStrip")
    panel.until(strip.isVisible, "the strip")
    assert strip.text.startswith("2 processes of the ended run digits_mlp are still running: ")
    fleeting.kill()
    panel.until(lambda: strip.text.startswith("1 process of the ended run digits_mlp is still running: "), "the exit")
    assert f"(pid {orphan.pid})" in strip.text
    panel.qtbot.mouseClick(strip.show_button, Qt.MouseButton.LeftButton)
    assert panel.window.panels.details.processes.isVisible()
    assert select(panel, orphan.pid).isEnabled()
    assert cell(table(panel), pids(panel).index(orphan.pid), 7).endswith("(leftover)")
    panel.qtbot.mouseClick(strip.end_button, Qt.MouseButton.LeftButton)
    assert f"(pid {orphan.pid})" in panel.asked().text
    assert orphan.cmdline()[0] in panel.question().text
    panel.answer("yesButton")
    panel.until(lambda: not processes.is_alive(leftover), "the process to exit")
    panel.until(lambda: not strip.isVisible(), "the strip to disappear")
    panel.until(lambda: "ended" in panel.message("messageStrip"), "the result")


# -- leftover processes ----------------------------------------------------------------------------


SCRIPT = "python -c import time\n" + "print('a line')\n" * 150


def orphan(pid: int, run_id: str = "old", why: str = "Run old is over (finished).") -> OrphanedProcess:
    return OrphanedProcess(
        process=ProcessId(pid=pid, created=1.0), run_id=run_id, run_dir=None, name="python", command=SCRIPT, age_s=75,
        user="anna", memory_bytes=None, why=why,
    )


# -- texts ---------------------------------------------------------------------------------------


def test_texts_on_leftovers_are_short_and_give_each_reason_once():
    assert first_names(["A", "B", "C"], 3) == ["A", "B", "C"]
    assert first_names(["A", "B", "C", "D"], 2) == ["A", "B", "2 more"]
    assert first_names(["A", "B"], limit=1, more="{count} others") == ["A", "1 others"]
    assert leftovers_sentence([orphan(1), orphan(2), orphan(3), orphan(4)], {"old": "mnist"}) == (
        "4 processes of the ended run mnist are still running: "
        "python (pid 1), python (pid 2), python (pid 3) and 1 more. They may use memory of a device."
    )
    found = [formatting.fine_gigabytes(value) for value in (None, 0, 2**30 // 25, 9.1 * 2**30, 200 * 2**30)]
    assert found == ["–", "0", "0.04", "9.1", "200"]
    assert one_line("a\n  b\tc", 10) == "a b c"
    assert one_line("a" * 20, 10) == "a" * 9 + "…"
    question, words = leftovers_confirmation([orphan(1), orphan(2)])
    assert question == "End the leftover processes?"
    assert len(words.splitlines()) == 5
    process_info = ProcessInfo(pid=1, created=1.0, name="python", command=SCRIPT, age_s=5)
    row = process_rows([ProcessEntry(info=process_info, devices=())], {}, RUNS, {}, Survey())[0]
    _, words = confirmation(row)
    assert len(words.splitlines()) == 5  # including two empty lines
    assert "import time print('a line')" in words
    _, words = leftovers_confirmation(
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


def test_dismissed_strip_stays_hidden_and_only_the_visible_page_is_refreshed(controller, monkeypatch):
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


def test_tab_order_of_strip_buttons_matches_layout(hold):
    strip = hold(LeftoversStrip())
    chain, widget = [], strip.nextInFocusChain()
    while widget is not strip:
        chain.append(widget)
        widget = widget.nextInFocusChain()
    buttons = [each for each in chain if isinstance(each, QAbstractButton) and not each.isHidden()]
    assert [each.accessibleName() for each in buttons[-3:]] == [
        "Show these processes", "End these processes (asks first)", "Dismiss this message",
    ]


# -- the pages -----------------------------------------------------------------------------------
