"""View models and small panels: texts, progress, headers and rows, without a run."""

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QContextMenuEvent

from core.devices.device import Device, Sample, Survey
from core.devices.names import short_name
from core.diagnosis.evidence import OF_WORKER
from core.history.summary import RunSummary
from core.language import join_sentences, tr
from core.queue.listing import QueuedRun, QueueView
from core.queue.request import QueueRequest
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.schema.event_kinds import Plan, StopStep
from core.series.run_series import RunSeries
from core.system.processes import ProcessId
from core.text import join_names
from gui.base import formatting
from gui.features.devices.rows import MAX_CHARACTERS, digest
from gui.features.run.events import failure_view
from gui.features.run.head import ProgressLine
from gui.features.runlist.view import RunList
from gui.machine.device_rows import DeviceRows, OnDevices
from gui.machine.monitor import KEPT_S, SLACK_S, DeviceMonitor
from gui.runs.actions import RunActions
from gui.runs.progress import ProgressView, progress_view, took_s
from gui.runs.rows import RunRow, run_rows
from gui.runs.verdicts import Message, run_message
from gui.runs.words import RunHeader, stop_progress

PLAN = Plan(epochs=10, steps_per_epoch=100, samples_per_epoch=6400)
GB = 2**30
NOW = 1_750_000_000.0


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (formatting.percent(None), "–"),
        (formatting.percent(81.6), "82 %"),
        (formatting.memory(9.1 * GB, 24 * GB), "9.1 / 24 GB"),
        (formatting.memory(None, 24 * GB), "– / 24 GB"),
        (formatting.memory(0, None), "0.0 GB"),
        (formatting.duration(232), "3:52"),
        (formatting.duration(3 * 86400 + 7200), "3 d 2 h"),
        (join_names(["A", "B", "C"]), "A, B and C"),
        (formatting.rate(0.83), "0.8 samples/s"),
        (formatting.step_rate(12345), "12\u2009345 steps/s"),
        (formatting.step_rate(0.025), "40 s a step"),
        (short_name("NVIDIA GeForce RTX 4090"), "RTX 4090"),
        (short_name("Intel(R) Xeon(R) Processor, 1 core"), "Intel Xeon, 1 core"),
    ],
)
def test_formatted_values(shown, text):
    assert shown == text


# -- progress ------------------------------------------------------------------------------------


def losses(count: int, *, per_s: float, began: float):
    run_series = RunSeries()
    for number in range(count):
        event = {"t": began + number / per_s, "kind": "metrics", "first": number + 1, "values": {"loss": [1.0]}}
        run_series.fold([event])
    return run_series.metrics["loss"]


def test_progress_of_run_that_trains_stalls_stops_or_has_finished():
    running, fast = RunFacts(state=RunState.RUNNING, plan=PLAN, step=250), losses(250, per_s=50, began=1000)
    now = progress_view(running, fast, now=1005)
    assert (now.done, now.total, now.unit, now.fraction) == (3, 10, "epochs", 0.25)
    assert now.samples_per_s == pytest.approx(50 * 64, rel=0.02)
    assert now.left_s == pytest.approx(15, rel=0.02)
    assert progress_view(running, None, now=1005).samples_per_s is None
    stalled = progress_view(running, fast, now=2000)
    assert (stalled.samples_per_s, stalled.left_s) == (None, None)
    assert progress_view(RunFacts(), None, now=0) is None
    history = ((1000.0, RunState.STARTING), (1020.0, RunState.FINISHED))
    finished = RunFacts(state=RunState.FINISHED, plan=PLAN, step=1000, history=history)
    measured = losses(1000, per_s=100, began=1001)
    end = progress_view(finished, measured, now=9999)
    assert (end.done, end.fraction, end.left_s, end.samples_per_s) == (10, 1.0, None, None)
    assert took_s(finished, measured) == 19.0  # from the first step
    asked = StopStep(time=100, name="asked", grace_s=10)
    assert stop_progress(RunFacts(stop_steps=(asked,)), 103) == "stopping politely · interrupt in 7 s"
    killed = StopStep(time=110, name="SIGKILL", grace_s=None)
    assert stop_progress(RunFacts(stop_steps=(asked, killed)), 111) == "stopping politely · kill"


@pytest.mark.styled
def test_progress_line_shrinks_when_text_is_final(hold):
    used, fresh = hold(ProgressLine()), hold(ProgressLine())
    used.show_progress("epoch 1 of 2", 0.5, "12 340 samples/s · 42:08 left")
    wide = used.sizeHint().width()
    used.show_progress("epoch 1 of 2", 0.5, "saving …")
    assert used.sizeHint().width() == wide, "neighbouring widgets do not move"
    for _ in range(2):
        used.show_progress("epoch 2 of 2", 1.0, "took 0:42", steady=False)
    fresh.show_progress("epoch 2 of 2", 1.0, "took 0:42", steady=False)
    assert used.sizeHint() == fresh.sizeHint()


# -- rows ----------------------------------------------------------------------------------------


def test_missing_reading_is_dash_unless_run_reports_memory():
    device = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon", memory_total_bytes=8 * GB)
    survey = Survey(devices=(device,), samples=(Sample(device_id="cpu:0", time=1),))
    row = DeviceRows().make(survey, {"cpu:0": "#ffffff"}, OnDevices())[0]
    assert (row.utilisation, row.memory, row.temperature_and_power, row.memory_fraction) == ("–", "– / 8 GB", "", None)
    on_devices = OnDevices(used_by={"cpu:0": "mnist"}, memory_of_run={"cpu:0": 2 * GB})
    row = DeviceRows().make(survey, {"cpu:0": "#ffffff"}, on_devices)[0]
    assert (row.memory, row.memory_fraction, row.status) == ("2.0 / 8 GB", 0.25, "runs mnist")


def summary(tmp_path, state, **values):
    defaults = {"started": NOW, "ended": None, "error": None, "last_loss": 0.214, "step": 320, "plan": PLAN}
    return RunSummary(dir=tmp_path / state.value, name="mnist", state=state, **{**defaults, **values})


def test_run_row_has_outcome_and_warns_of_a_nan_loss(tmp_path):
    worker = tr(OF_WORKER, phrase="Worker 1 on cpu:1")
    runs = [
        summary(tmp_path, RunState.RUNNING),
        summary(tmp_path, RunState.FINISHED),
        summary(tmp_path, RunState.STOPPED),
        summary(tmp_path, RunState.FAILED, error=join_sentences([worker, "ValueError: no such file\nmore"])),
        summary(tmp_path, RunState.CREATED, started=None),
    ]
    rows = run_rows(runs, NOW)
    assert [row.outcome for row in rows] == [
        "running · epoch 4 of 10", "finished · loss 0.214", "stopped · epoch 4 of 10",
        "failed · ValueError: no such file", "created",
    ]
    started = time.localtime(runs[0].started)
    assert rows[0].title == time.strftime("%H:%M:%S mnist", started), "several have one name and one minute"
    told_apart = run_rows(runs, NOW, words=lambda each: f"seed {runs.index(each)}")
    assert told_apart[0].title == time.strftime("%H:%M mnist", started), "and the same words"
    assert run_rows(runs[:1], NOW)[0].title == time.strftime("%H:%M mnist", started)
    assert run_rows(runs[:1], NOW + 40 * 86400)[0].title != rows[0].title  # an old run shows its date
    for loss, tone in ((0.2, "good"), (float("nan"), "warn"), (float("inf"), "warn"), (None, "good")):
        (row,) = run_rows([summary(tmp_path, RunState.FINISHED, last_loss=loss)], NOW)
        assert (row.tone, "not a number" in row.tip) == (tone, tone == "warn")


def test_shown_run_alone_is_selected_and_a_row_chosen_by_hand_stays(hold, qtbot, tmp_path):
    view = hold(RunList(RunActions()), 400, 400)
    new, first, second, old, older = (
        RunRow(dir=tmp_path / name, title=name, outcome="", tone="good", mark="tick", tip="", is_queued=name[0] != "o",
               runs=(str(tmp_path / name),))
        for name in ("new", "first", "second", "old", "older")
    )

    def selected():
        return [Path(each).name for each in view.ticked]

    view.show_rows([first, second, old, older])
    place = view.visualItemRect(view.item(2)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    view.mark_chosen(old.dir)
    view.show_rows([new, first, second, old, older])  # the selection survives new rows
    view.mark_chosen(old.dir)
    assert (selected(), view.currentRow()) == (["old"], 3)
    view.mark_chosen(new.dir)  # it was started
    assert selected() == ["new"]
    qtbot.keyClick(view, Qt.Key.Key_Down)
    view.mark_chosen(new.dir)  # at the next poll
    assert selected() == ["first"]
    qtbot.keyClick(view, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    view.show_rows([new, second, first, old, older])
    view.mark_chosen(new.dir)
    assert selected() == ["first"]
    place = view.visualItemRect(view.item(2)).center()
    where = view.viewport().mapToGlobal(place)
    view.contextMenuEvent(QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, where))
    assert (view.run_menu.run_dir, view.several_menu.isVisible()) == (str(first.dir), False)
    view.run_menu.close()
    view.mark_chosen(None)
    assert selected() == []


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.STOPPED, RunState.PAUSED])
@pytest.mark.parametrize("step", [0, 99, 100, 320, 1000])
def test_run_list_and_header_show_same_epoch(tmp_path, state, step):
    (row,) = run_rows([summary(tmp_path, state, step=step)], NOW)
    now = progress_view(RunFacts(state=state, plan=PLAN, step=step), None, NOW)
    assert row.outcome == f"{state.value} · epoch {now.done} of {now.total}"


def listed(name: str, state: RunState, **more: object) -> RunSummary:
    given = {"started": NOW, "ended": None, "error": None, "last_loss": 0.5, "step": 0, "plan": None, **more}
    return RunSummary(dir=Path(f"/runs/{name}"), name="mine", state=state, **given)


def test_rows_say_what_came_out_in_a_few_words():
    plan = Plan(epochs=30, steps_per_epoch=10, samples_per_epoch=64)
    of = {"plan": plan, "step": 11}
    for state, more, result in (
        (RunState.FINISHED, {"best_validation": (3, 0.437)}, "val. loss 0.437"),
        (RunState.FINISHED, {"last_loss": None}, "finished"),
        (RunState.FINISHED, {"last_loss": math.nan, "nan_step": 60}, "NaN at step 60"),
        (RunState.FINISHED, {"nan_step": 60}, "loss 0.500"),
        (RunState.RUNNING, {"last_loss": math.nan, "nan_step": 60}, "NaN at step 60"),
        (RunState.STOPPED, of, "stopped, 2 of 30"), (RunState.PAUSED, of, "paused, 2 of 30"),
        (RunState.STOPPED, {}, "stopped"), (RunState.STOPPED, {"step": 340}, "stopped, step 340"),
        (RunState.FAILED, {"error": "torch.OutOfMemoryError: CUDA out of memory."}, "out of memory"),
        (RunState.STARTING, {"last_loss": None}, ""),
    ):
        (row,) = run_rows([listed("1", state, **more)], NOW)
        assert row.result == result


def test_running_runs_are_on_top_however_old_then_the_queue_then_days():
    day_s, now = 86_400.0, NOW + 10 * 86_400.0
    plan = Plan(epochs=72, steps_per_epoch=10, samples_per_epoch=64)

    def run(day: int, name: str, state: RunState, **more: object) -> RunSummary:
        return listed(f"2025061{day}-{name}", state, **{"started": NOW + (day - 5) * day_s, **more})

    old = run(5, "old", RunState.RUNNING, plan=plan, step=338)
    script_run, waiting = run(6, "script", RunState.RUNNING, step=40), run(7, "queued", RunState.QUEUED, started=None)
    later = replace(waiting, dir=waiting.dir.with_name("20250618-later"))
    runs = [later, run(8, "b", RunState.FINISHED), waiting, run(7, "c", RunState.FINISHED), script_run, old]
    queued = [
        QueuedRun(run_dir=each.dir, request=QueueRequest(), place=place, state="queued", needs="GPU 0", waits=True,
                  reason="GPU 0 is used by run old.", expected_start=now + 3600 if place == 1 else None)
        for place, each in enumerate((waiting, later), 1)
    ]
    view = QueueView(runs=tuple(queued), ends={old.dir.name: now + 3430})
    progress = ProgressView(done=40, total=90, unit="steps", fraction=0.44, samples_per_s=None, steps_per_s=1.0,
                            left_s=50.0)
    rows = run_rows(runs, now, by_day=True, queue=view, words=lambda _: "lr 0.1", shown=(script_run.dir, progress))
    assert [(row.dir.name[9:], row.day, row.of_day) for row in rows] == [
        ("script", "Running", 2), ("old", "", 0), ("queued", "Queue", 2), ("later", "", 0), ("b", "18 June", 1),
        ("c", "17 June", 1),
    ]
    assert [(row.below, row.left, row.fraction) for row in rows[:2]] == [
        ("step 40 of 90", "0:50 left", 0.44), ("epoch 34 of 72", "57:10 left", pytest.approx(338 / 720)),
    ]
    assert rows[1].title.startswith("15 Jun "), "no heading says its day"
    assert (rows[2].below, rows[2].words, bool(rows[2].result), rows[3].result) == (
        "GPU 0 is used by run old", "lr 0.1", True, "",
    )
    assert [row.dir.name[9:] for row in run_rows(runs, now, queue=view)] == [each.dir.name[9:] for each in runs], (
        "a list that the user sorted stays as it is"
    )


# -- messages ------------------------------------------------------------------------------------


def test_slow_device_and_unusable_spec_are_in_the_strip_and_a_failure_in_its_card():
    hot = {"t": 2.0, "kind": "slowed", "device": "GPU-2", "text": "GPU 2 is slowed down: 91 °C."}
    gpu = {"t": 1.0, "kind": "device", "id": "GPU-2", "label": "GPU 2"}
    states = [{"t": 1.0, "kind": "state", "state": state} for state in ("starting", "running")]
    running = fold(RunFacts(), [gpu, *states])
    slow = fold(running, [hot])
    assert run_message(slow, None, 0) == Message(text=hot["text"], tone="warn", details=False)
    assert run_message(fold(slow, [{**hot, "text": ""}]), None, 0).text == ""
    assert run_message(fold(slow, [{"t": 3.0, "kind": "state", "state": "releasing"}]), None, 0).text == ""
    problem, error = "spec.json is not a valid spec.", "The run never came up."
    lost = RunFacts(state=RunState.LOST, error=error)
    assert run_message(lost, None, 0).text == ""
    assert run_message(lost, problem, 0).text == problem
    assert failure_view(lost, None, log_end="", labels={}) is None  # it could not start: only the problem counts
    ran = replace(lost, supervisor=ProcessId(pid=1, created=0))
    shown = failure_view(ran, None, log_end="", labels={})
    assert error in shown.sentence
    assert not shown.can_run_again


def test_driver_advice_is_not_repeated_or_cut_mid_sentence():
    advice = "Look into the kernel's log (dmesg) for NVRM and Xid; a reboot often helps."
    lost = [f"GPU {number} cannot be listed: the driver says “GPU is lost”." for number in range(9)]
    assert digest(f"{lost[0]} {advice} {lost[1]} {advice}") == f"{lost[0]} {lost[1]} {advice}"
    shortened = digest(" ".join(f"{each} {advice}" for each in lost))
    shown = [each for each in (*lost, advice) if each in shortened]
    assert shortened == " ".join([*shown, f"And {10 - len(shown)} more: see the tooltip."])
    assert MAX_CHARACTERS / 2 < len(" ".join(shown)) <= MAX_CHARACTERS
    assert digest("") == ""
    assert digest("驱动未运行。请重启。驱动太旧。请重启。") == "驱动未运行。驱动太旧。请重启。"


@pytest.mark.styled
def test_header_cuts_its_title_only_without_room_and_then_has_no_bar(header, qtbot):
    running = RunHeader(name="digits_cnn", what="PyTorch, data parallel (DDP) on 2 devices", epoch="epoch 71 of 2000",
                   fraction=0.04, detail="12 340 samples/s · 42:08 left")
    header.resize(2000, 60)
    header.show()
    header.show_header(running)
    header.show_header(replace(running, label="Paused", detail="took 1:17"))
    fixed, bar = header.sizeHint().width(), header.progress.bar
    header.resize(fixed + 500, 60)
    qtbot.waitUntil(lambda: header.what.width() >= header.what.sizeHint().width())
    qtbot.waitUntil(lambda: bar.width() == bar.maximumWidth())  # it takes the remaining width
    header.resize(fixed - 60, 60)
    qtbot.waitUntil(lambda: header.what.width() < header.what.sizeHint().width())
    assert bar.width() == bar.minimumWidth(), "the bar shrinks before the text"
    header.resize(900, 60)
    header.show_compact(compact=True)
    running = RunHeader(name="resnet_cats", what="PyTorch", label="Running", epoch="epoch 3 of 3", fraction=1.0)
    header.show_header(running)
    assert header.progress.bar.isVisible()
    over = replace(running, label="Finished", detail="val. loss 1.01 · took 2:00", released="memory used by others")
    header.show_header(over)
    assert not header.progress.bar.isVisible()
    qtbot.waitUntil(lambda: header._released.width() >= header._released.sizeHint().width())
    header.resize(1300, 60)
    assert header.progress.bar.isVisible()


class FakeSampler:
    """A sampler that returns only the samples it was given."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def poll(self) -> Survey:
        return Survey()

    def new_samples(self) -> list[Sample]:
        fresh, self.samples = self.samples, []
        return fresh


def test_live_history_keeps_last_hour():
    sampler = FakeSampler()
    monitor = DeviceMonitor(sampler)
    for second in range(0, 9000, 2):
        reading = Sample(device_id="gpu", time=1000.0 + second, utilisation_percent=second % 100, power_watts=300)
        sampler.samples = [reading]
        monitor.poll()
    series = monitor.series.utilisation["gpu"]
    assert len(monitor.series.power["gpu"]) == len(series)
    assert KEPT_S - 2 <= monitor.series.duration_s <= KEPT_S + SLACK_S + 2
    assert series.last == 8998 % 100
    assert len(series) == pytest.approx(monitor.series.duration_s / 2, abs=2)
