"""The memory tab: bars, release verdicts, what to do about held memory, and the mark where training ended."""

import os
import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QTableView, QWidget

from core.devices.device import Device, Process, Sample, Survey
from core.history.device_use import largest_others
from core.language import join_sentences, stored, tr
from core.memory_watch.verdict import LISTED
from core.runs.facts import RunFacts, RunState
from core.schema.event_kinds import ProcessInfo, Release, Verdict
from core.series.run_series import RunSeries
from gui.base.formatting import fine_gigabytes, moment
from gui.base.theme import current_theme
from gui.features.memory.scanner import just_ended
from gui.features.memory.tab import (
    FREE,
    OTHER_RUNS,
    OTHERS,
    SIDE_PX,
    THIS_RUN,
    UNCLAIMED,
    MemoryBar,
    MemoryKnowledge,
    MemoryTab,
    MemoryTable,
    memory_bars,
    part_brushes,
)
from gui.runs import verdicts as memory_verdicts
from gui.runs.verdicts import remedies, sentences, without_remedies
from tests.support.acting import played
from tests.support.recorded import BEGAN, ENDED, GB, finding, recorded
from tests.support.running import start
from tests.support.tables import cell, cells, headings, middle

pytestmark = pytest.mark.styled

GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="RTX", memory_total_bytes=24 * GB)
COLOURS = {"GPU-1": "#4d9bff", "cpu:0": "#ff9f45"}
BAR = 1
HEADINGS = ("Device", "Memory, GB", "This run", "Other runs", "Others", "Unclaimed", "Free")


def knowledge(*processes, run_id="this", **more):
    defaults = {"memory_of_run": {}, "available_bytes": None, "stale_age_s": {}}
    return MemoryKnowledge(processes=processes, run_id=run_id, **{**defaults, **more})


def process_of(used, run_id=None, **more):
    return ProcessInfo(pid=1, device_id="GPU-1", memory_used_bytes=used, run_id=run_id, name="python", **more)


def survey(device=GPU, **sample):
    return Survey(devices=(device,), samples=(Sample(device_id=device.id, time=1, **sample),))


# -- memory by owner -----------------------------------------------------------------------------


def test_bar_parts_are_by_owner_and_unknown_amounts_are_none():
    held = knowledge(process_of(4 * GB, "this"), process_of(3 * GB, "another"), process_of(2 * GB), process_of(1 * GB))
    (row,) = memory_bars(survey(memory_used_bytes=12 * GB, processes=(Process(pid=1),)), COLOURS, held)
    assert [part // GB for part in row.parts] == [4, 3, 3, 2, 12]
    assert sum(row.shares) == pytest.approx(1)
    held = knowledge(process_of(None, "this"))
    (row,) = memory_bars(survey(memory_used_bytes=5 * GB, processes=(Process(pid=1),)), COLOURS, held)
    assert (row.parts[THIS_RUN], row.parts[OTHERS], row.parts[UNCLAIMED]) == (None, 0, None)
    assert row.shares == pytest.approx((0, 0, 0, 5 / 24, 19 / 24)), "memory in use is never drawn as free"
    held = knowledge(process_of(None), process_of(2 * GB))  # the first process holds an unknown part of the rest
    (row,) = memory_bars(survey(memory_used_bytes=5 * GB, processes=(Process(pid=1),)), COLOURS, held)
    assert (row.parts[OTHERS], row.parts[UNCLAIMED]) == (2 * GB, None)
    (row,) = memory_bars(survey(memory_used_bytes=5 * GB, processes=None), COLOURS, knowledge())
    assert row.parts[:FREE] == (None, None, None, None)
    cpu = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon", memory_total_bytes=32 * GB)
    held = knowledge(memory_of_run={"cpu:0": 2.0 * GB}, available_bytes=20 * GB)
    (row,) = memory_bars(survey(cpu), COLOURS, held)
    assert row.parts == (2 * GB, 0, 10 * GB, None, 20 * GB)
    held = knowledge(memory_of_run={}, available_bytes=20 * GB, other_runs_on={"cpu:0"})
    (row,) = memory_bars(survey(cpu), COLOURS, held)
    assert row.parts == (0, None, None, None, 20 * GB), "the memory of another run is not counted as that of others"
    assert row.shares == pytest.approx((0, 0, 0, 12 / 32, 20 / 32))


SHARED = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="GB10", shared_memory=True)


@pytest.mark.parametrize(
    ("device", "sample", "stale_age_s", "words"),
    [
        (GPU, {"lost": "gone"}, {}, "lost"),
        (GPU, {"asleep": True}, {}, "asleep"),
        (GPU, {}, {}, "does not report"),
        (GPU, {"memory_used_bytes": GB}, {"GPU-1": 12}, "12 s ago"),
        (SHARED, {"memory_used_bytes": GB}, {}, "shared memory: its users are unknown"),
    ],
)
def test_device_without_bar_shows_reason(device, sample, stale_age_s, words):
    (row,) = memory_bars(survey(device, **sample), COLOURS, knowledge(stale_age_s=stale_age_s))
    assert words in row.words
    assert row.shares == (0, 0, 0, 0, 0)


def test_the_largest_process_of_others_is_named_unless_it_is_tiny_or_unknown_memory_may_be_more():
    def holder(pid, name, user, used, **more):
        return ProcessInfo(pid=pid, device_id="GPU-1", memory_used_bytes=used, name=name, user=user, **more)

    small, xorg = holder(1, "Xorg", "root", 2**20), holder(1, "Xorg", "root", None)
    ours, blender = holder(2, "python", None, 9 * GB, run_id="living"), holder(3, "blender", "anna", 5 * GB)
    unknown = ProcessInfo(pid=4711, device_id="GPU-1", memory_used_bytes=None)
    for used, found, named in (
        (15 * GB, [small, ours], None), (15 * GB, [blender, small, ours], "blender (anna)"),
        (15 * GB, [xorg], "Xorg (root)"), (GB // 8, [xorg], None), (None, [xorg], None), (9 * GB, [xorg, ours], None),
        (15 * GB, [xorg, blender], "blender (anna)"),
        (15 * GB, [unknown], "pid 4711 (in a container, or already ended)"),
    ):
        expected = {} if named is None else {"GPU-1": named}
        assert largest_others(survey(memory_used_bytes=used), found, {"living"}) == expected, (used, found)


def test_selected_row_is_scrolled_to_and_a_narrow_tab_keeps_bars(qtbot, hold):
    page = hold(MemoryTab(), 500, 120)
    defaults = {"colour": "#4d9bff", "total_bytes": GB, "parts": (0,) * 5}
    page.show_rows([MemoryBar(id=f"g{number}", label=f"GPU {number}", **defaults) for number in range(8)])
    qtbot.waitUntil(lambda: page.table.height() == page.table.sizeHint().height())
    last = middle(page.table, 7)

    def bottom() -> int:
        return page.table.viewport().mapTo(page.viewport(), last).y()

    assert bottom() > page.viewport().height()
    page.table.selectRow(7)
    assert bottom() <= page.viewport().height()
    page.show_rows([MemoryBar(id="g", label="GPU 3 MIG 0", **defaults)])
    unclaimed = HEADINGS.index("Unclaimed")
    for width, hidden in ((900, False), (500, True), (900, False)):
        page.resize(width, 200)
        qtbot.waitUntil(lambda hidden=hidden: page.table.isColumnHidden(unclaimed) is hidden)
        heading = page.table.horizontalHeader()
        assert page.table.columnWidth(BAR) >= heading.fontMetrics().horizontalAdvance(HEADINGS[BAR])


def bar_colours(table: MemoryTable, shares, part: int) -> set[str]:
    """Return the colours in the middle of a part of the bar in the first row."""
    bar = table.visualRect(table.model().index(0, BAR)).adjusted(SIDE_PX, 0, -SIDE_PX, 0)
    image, left, width = table.viewport().grab().toImage(), sum(shares[:part]) * bar.width(), shares[part] * bar.width()
    columns = range(bar.left() + round(left + width / 4), bar.left() + round(left + 3 * width / 4))
    return {image.pixelColor(x, bar.center().y() + y).name() for x in columns for y in (-1, 0, 1)}


def test_gpu_bar_is_drawn_with_its_amounts(assemble, nvml, launch):
    sleeper = launch()
    of_a_run = launch(env={**os.environ, "TRAINYARD_RUN": "somewhere-else"})
    listed = f"{sleeper.pid}:{6 * GB},{of_a_run.pid}:{3 * GB}"
    nvml.write(gpus=1, gpu0={"memory_used": 10 * GB, "compute": listed})
    panel = assemble("memory", "devices")
    panel.open_tab("Memory")
    table = panel.window.findChild(QTableView, "memoryHolders")
    panel.until(lambda: len(table.rows) == 3 and cell(table, 0, 4) == "6.0", "the bar of GPU 0")
    assert headings(table) == list(HEADINGS)
    assert cells(table)[0] == ("GPU 0", "24.0", "0", "3.0", "6.0", "1.0", "14.0")
    row, theme = table.rows[0], current_theme()
    own, other_runs, others, unclaimed, free = (brush.color().name() for brush in part_brushes(row.colour))
    assert (own, others, len({own, other_runs, others, unclaimed, free})) == (row.colour, theme.muted, 5)
    assert row.shares == pytest.approx([part / 24 for part in (0, 3, 6, 1, 14)])
    drawn = [bar_colours(table, row.shares, part) for part in (OTHER_RUNS, OTHERS, FREE)]
    assert drawn == [{other_runs}, {others}, {free}]
    assert bar_colours(table, row.shares, UNCLAIMED) == {unclaimed, free}  # dots
    panel.until(lambda: panel.devices[0].status.startswith("used by python"), "the process beside the device")


@pytest.mark.slow
def test_selected_run_is_drawn_in_bar_of_its_cpu_device(assemble, runs_root, tmp_path):
    start(played(tmp_path / "actor"), runs_root).until(RunState.RUNNING)
    panel = assemble("run", "memory", "devices")
    panel.until_state("Running")
    panel.open_tab("Memory")
    table = panel.window.findChild(QTableView, "memoryHolders")
    own = panel.window.services.session.memory_now

    def shown() -> bool:
        return bool(table.rows) and table.rows[0].parts[THIS_RUN] == int(own().get("cpu:0", 0)) > 0

    panel.until(shown, "the memory of the run")
    assert cell(table, 0, 2) == fine_gigabytes(table.rows[0].parts[THIS_RUN])
    bar = table.visualRect(table.model().index(0, BAR))
    first = table.viewport().grab().toImage().pixelColor(bar.left() + SIDE_PX, bar.center().y())
    assert first.name() == table.rows[0].colour.lower()
    assert "After training" in panel.window.panels.details.memory.nothing.text()


# -- after a run ---------------------------------------------------------------------------------


def test_finished_run_shows_end_of_training_and_released_memory(assemble, runs_root):
    recorded(runs_root, findings=[finding("cpu:0", seconds=1.2), finding("cpu:1", seconds=1.8)], devices="cpu:0,cpu:1")
    panel = assemble("run", "memory")
    label = panel.window.findChild(QLabel, "releasedLabel")
    panel.open_run()
    panel.until_state("Finished")
    for name in ("utilisationPlot", "memoryPlot"):  # the loss plot ends with training
        plot = panel.plot(name)
        panel.until(plot.end.line.isVisible, f"the mark in {name}")
        assert plot.end.line.value() == ENDED - BEGAN
        # The first drawing may come before the plot has its height, in which the label has its place.
        panel.until(lambda plot=plot, name=name: plot.end.label.isVisible() == (name == "memoryPlot"), "the label")
    memory = panel.plot("memoryPlot")
    assert memory.end.label.toPlainText() == "training ended"
    assert memory.curves()["cpu:0"][0][-1] > ENDED - BEGAN  # readings continue after the end
    assert (memory._note.text(), memory._note.property("tone")) == ("✓ released in 1.8 s on both devices", "good")
    assert (label.text(), label.property("tone")) == ("memory released in 1.8 s", "good")
    assert panel.message() == ""


@pytest.mark.slow
def test_verdict_message_and_what_to_do_of_memory_that_is_held_unexplained_or_not_judged(assemble, runs_root):
    sentence = "CPU 0 holds 2.0 GB more than before; blender (anna) has it."
    unticked = "Process 4711 of this run is on GPU 1, which was not ticked."
    own = "GPU 0 still holds 2.0 GB: process 4711 of this run could not be ended."
    unexplained = with_remedies("GPU 9 uses 8.0 GB more than before the run, and no program was found that holds it.")
    ended = {
        "kind": "ended", "by": "supervisor",
        "processes": [{"pid": 99, "created": 1.0, "name": "pt_data_worker", "command": "python", "signal": "SIGKILL"}],
    }
    held = finding(verdict="held by this run", after_bytes=2 * GB, seconds=60, sentence=own)
    for name, known in (
        ("6-held", {"findings": [held], "more": [ended], "last": "stopped"}),
        ("5-unexplained",
         {"findings": [finding(verdict="unexplained", after_bytes=9 * GB, sentence=stored(unexplained))]}),
        ("4-others", {"findings": [finding(verdict="held by others", sentence=sentence)]}),
        ("3-unjudged", {"findings": [finding(verdict="cannot be judged", sentence=sentence)]}), ("2-unwatched", {}),
        ("1-unticked", {"more": [{"kind": "unticked_device", "device": "GPU-1", "pids": [4711], "text": unticked}]}),
    ):
        recorded(runs_root, **known).rename(runs_root / f"20250615-15000{name}")
    panel = assemble("run", "memory")
    window, strip = panel.window, panel.window.panels.run_message
    label, note = window.findChild(QLabel, "releasedLabel"), panel.plot("memoryPlot")._note
    findings = window.findChild(QWidget, "releaseFindings")

    def texts() -> list[str]:
        return [each.text() for each in findings.findChildren(QLabel) if each.isVisible()]

    panel.open_run(0, of=6)
    panel.until_state("Stopped")
    assert own in panel.message()
    assert strip._tone == "bad"
    assert (note.text(), note.property("tone")) == ("held by this run: CPU 0", "bad")
    panel.open_tab("Memory")
    panel.until(lambda: {"held by this run", own} <= set(texts()), "the finding")
    assert f"Verdict, as of {moment(ENDED + 5, time.time())}" in texts()
    assert {"0 → 2.0 → 2.0 GB", "60 s"} <= set(texts())
    assert any("pt_data_worker (pid 99, SIGKILL, by the supervisor)" in text for text in texts())

    panel.open_run(1, of=6)
    panel.until(lambda: panel.message().endswith("no program was found that holds it."), "the sentence")
    (button,) = (each for each in strip.findChildren(QPushButton) if each.text() == "What to do")
    panel.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    steps = window.findChild(QWidget, "remedyList")
    panel.until(lambda: steps.isVisible() and window.findChild(QPushButton, "remedyCopy0") is not None, "the steps")
    panel.qtbot.mouseClick(window.findChild(QPushButton, "remedyCopy0"), Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "sudo fuser -v /dev/nvidia*"
    assert not any("gentlest" in each.text() for each in findings.findChildren(QLabel))

    panel.open_run(2, of=6)
    prefix = f"As of {moment(ENDED + 5, time.time())}: "  # the verdict may be old
    panel.until(lambda: panel.message() == prefix + sentence, "the sentence")
    assert strip._tone == "warn"
    panel.open_run(3, of=6)
    panel.until(lambda: label.text() == "memory cannot be judged", "the verdict")
    assert (label.property("tone"), panel.message()) == ("muted", "")
    panel.open_run(4, of=6)
    panel.until(lambda: not label.isVisible(), "no verdict")
    nothing = window.panels.details.memory.nothing
    panel.until(lambda: "Memory was not monitored" in nothing.text(), "the explanation")
    panel.open_run(5, of=6)
    panel.until(lambda: panel.message() == unticked, "the message")
    assert strip._tone == "bad"


# -- texts ---------------------------------------------------------------------------------------


def facts(state=RunState.FINISHED, devices=("cpu:0",), waiting=None, **verdicts):
    """Return the facts of a run on these devices; `verdicts` are keyed by device number: d0, d1, ..."""
    found = {}
    for number, (verdict, took_s) in verdicts.items():
        device = f"cpu:{number.removeprefix('d')}"
        found[device] = Release(
            device_id=device, verdict=verdict, before_bytes=None, peak_bytes=None, after_bytes=None,
            seconds=took_s, sentence=f"A sentence on {number}.",
        )
    return RunFacts(state=state, devices={device: {} for device in devices}, releases=found, waiting=waiting)


GOOD, BAD = (Verdict.RELEASED, 1.2), (Verdict.HELD_BY_RUN, 60.0)


@pytest.mark.parametrize(
    ("known", "note", "head"),
    [
        (facts(d0=GOOD), ("✓ released in 1.2 s", "good"), ("memory released in 1.2 s", "good")),
        (facts(d0=(Verdict.RELEASED, 0.004)), ("✓ released in under 0.1 s", "good"),
         ("memory released in under 0.1 s", "good")),
        (facts(d0=GOOD, d1=GOOD, d2=GOOD), ("✓ released in 1.2 s on all 3 devices", "good"),
         ("memory released in 1.2 s", "good")),
        (facts(d0=GOOD, d1=BAD), ("held by this run: CPU 1", "bad"), ("memory not released", "bad")),
        (facts(d0=(Verdict.CANNOT_BE_JUDGED, 0)), ("cannot be judged: CPU 0", "muted"),
         ("memory cannot be judged", "muted")),
        (facts(RunState.RELEASING, waiting="CPU 0 is waited for."), (memory_verdicts.WATCHING, "muted"), ("", "")),
        (facts(RunState.RUNNING), ("", ""), ("", "")),
        (facts(), ("", ""), ("", "")),
    ],
)
def test_verdict_note_and_header_text(known, note, head):
    labels = {f"cpu:{number}": f"CPU {number}" for number in range(3)}
    assert memory_verdicts.note(known, labels) == note
    assert memory_verdicts.released_words(known) == head


def test_worst_verdict_is_first_and_a_pending_device_is_reported():
    others, unexplained = (Verdict.HELD_BY_OTHERS, 60.0), (Verdict.UNEXPLAINED, 60.0)
    found, tone = memory_verdicts.sentences(facts(d0=others, d1=GOOD, d2=unexplained))
    assert (found, tone) == (["A sentence on d2.", "A sentence on d0."], "bad")
    assert memory_verdicts.sentences(facts(d0=GOOD)) == ([], "")
    waiting = "GPU 1 still uses 2.0 GB more than before the run."
    both = ("cpu:0", "cpu:1")
    pending = facts(RunState.RELEASING, both, waiting, d0=GOOD)
    assert memory_verdicts.no_verdict_words(pending, shown=True) == waiting
    for state in (RunState.RELEASING, RunState.FINISHED, RunState.LOST):
        assert memory_verdicts.no_verdict_words(facts(state, both, waiting, d0=GOOD, d1=GOOD), shown=True) == ""
    assert memory_verdicts.no_verdict_words(facts(RunState.FINISHED, both, d0=GOOD), shown=True) == ""
    ended = RunFacts(state=RunState.FINISHED, history=((100.0, RunState.RELEASING), (101.0, RunState.FINISHED)))
    assert [just_ended(ended, now) for now in (101, 129, 131, 50)] == [True, True, False, False]
    assert just_ended(RunFacts(state=RunState.RELEASING, history=((100.0, RunState.RELEASING),)), 5000)
    assert not just_ended(RunFacts(state=RunState.RUNNING), 100)


def test_release_reading_extends_memory_series():
    run_series = RunSeries()
    run_series.fold([{"t": BEGAN, "kind": "sample", "device": "cpu:0", "memory_used_bytes": 2 * GB}])
    released = [("cpu:0", ENDED, 0), ("cpu:0", ENDED + 1, None), ("cpu:1", ENDED, 0)]
    findings = ({"t": t, "kind": "release", **finding(each, after_bytes=after)} for each, t, after in released)
    run_series.fold(findings)
    series = run_series.memory["cpu:0"]
    assert (series.times.tolist(), series.values.tolist()) == ([BEGAN, ENDED], [2 * GB, 0])


# -- what to do about memory that is held ----------------------------------------------------------


def with_remedies(sentence: str) -> str:
    return join_sentences([sentence, tr(LISTED, device="0000:01:00.0")])


DEVICES = {f"GPU-{name}": {"label": f"GPU {number}", "pci_bus_id": f"0000:0{number}:00.0"}
           for number, name in enumerate("ab")}


def release(device: str, verdict: Verdict = Verdict.UNEXPLAINED, after: int = 9 * GB, holders=()) -> Release:
    return Release(
        device_id=device, verdict=verdict, before_bytes=GB, peak_bytes=20 * GB, after_bytes=after, seconds=60.0,
        sentence=with_remedies(f"{device} uses 8.0 GB more than before the run."), holders=tuple(holders),
    )


def test_unexplained_memory_is_one_sentence_and_steps_name_devices_and_processes():
    facts = RunFacts(devices=DEVICES, releases={each: release(each) for each in DEVICES})
    assert sentences(facts) == (
        ["GPU 0 and GPU 1 use more memory than before the run (8.0 GB each), and no program was found that holds it."],
        "bad",
    )
    facts = RunFacts(devices=DEVICES, releases={"GPU-a": release("GPU-a")})
    assert sentences(facts)[0] == ["GPU-a uses 8.0 GB more than before the run."]
    commands = [each.command for each in remedies([release(each) for each in DEVICES], DEVICES)]
    assert commands[0] == "sudo fuser -v /dev/nvidia*"
    assert commands[1:3] == [f"sudo nvidia-smi --gpu-reset -i 0000:0{number}:00.0" for number in (0, 1)]
    assert commands[-1] == "sudo systemctl reboot"
    held = [ProcessInfo(pid=7), ProcessInfo(pid=8)]
    assert [each.command for each in remedies([release("GPU-a", Verdict.HELD_BY_RUN, holders=held)], DEVICES)] == [
        "kill -9 7 8"
    ]
    (step,) = remedies([release("GPU-a", Verdict.HELD_BY_OTHERS, holders=held)], DEVICES)
    assert step.command == "ps -o pid,user,etime,args -p '7 8'"
    assert remedies([release("GPU-a", Verdict.RELEASED)], DEVICES) == []
    assert without_remedies("No remedies here.") == "No remedies here."
