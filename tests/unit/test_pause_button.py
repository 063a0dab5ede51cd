"""Pausing: the button's state, reasons against resuming, and the speed of a resumed run."""

import sys
import time
from dataclasses import replace

import pytest

from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from core.devices.device import Sample, Survey
from core.runs.facts import RunFacts, RunState, state_info
from core.schema.event_kinds import Checkpoint, Plan
from core.series.run_series import RunSeries
from gui.machine.start_check import resume_problems
from gui.runs.progress import progress_view, took_s
from gui.runs.words import pause_button_state, saved_words, state_sentence, stop_question
from tests.window.test_panels import losses

PLAN = Plan(epochs=10, steps_per_epoch=100, samples_per_epoch=6400)
NOW = time.mktime((2026, 11, 20, 18, 30, 0, 0, 0, -1))
SAVED = Checkpoint(step=230, name="step-00000230", time=NOW - 27 * 60, reason="pause")


@pytest.mark.parametrize(
    ("state", "asked", "resuming", "text", "enabled", "resumes"),
    [
        (RunState.CREATED, "", False, "Pause", False, False),
        (RunState.RUNNING, "", False, "Pause", True, False),
        (RunState.RUNNING, "save", False, "Pause", True, False),
        (RunState.RUNNING, "pause", False, "Pausing…", False, False),
        (RunState.STOPPING, "", False, "Pause", False, False),
        (RunState.FINISHED, "", False, "Pause", False, False),
        (RunState.PAUSED, "", False, "Resume", True, True),
        (RunState.STOPPED, "", False, "Start over", True, True),
        (RunState.FAILED, "", False, "Start over", True, True),
        (RunState.LOST, "", False, "Start over", True, True),
        (RunState.PAUSED, "", True, "Resume", False, True),
    ],
)
def test_button_text_and_state_for_each_run_state(state, asked, resuming, text, enabled, resumes):
    saved = SAVED if state is RunState.PAUSED else None
    button = pause_button_state(RunFacts(state=state, checkpoint=saved), asked, resuming=resuming, now=NOW)
    assert (button.text, button.enabled, button.resumes) == (text, enabled, resumes)
    assert button.tip


@pytest.mark.parametrize(
    ("state", "reasons", "text", "tip"),
    [
        *((state, {"refusal": "It is a script."}, "Pause", "It is a script.") for state in (
            RunState.STARTING, RunState.RUNNING, RunState.STOPPED, RunState.FAILED, RunState.LOST)),
        (RunState.LOST, {"spec_problem": "Its spec is no spec."}, "Resume",
         "This run cannot be resumed: Its spec is no spec."),
    ],
)
def test_what_cannot_be_paused_or_resumed_says_why(state, reasons, text, tip):
    button = pause_button_state(RunFacts(state=state), "", resuming=False, now=NOW, **reasons)
    assert (button.text, button.enabled, button.tip) == (text, False, tip)


@pytest.mark.parametrize("state", RunState)
def test_script_state_never_mentions_resuming(state):
    assert "resume" not in state_sentence(state, is_script=True) or state is RunState.PAUSED
    assert state_sentence(state, is_script=False) == state_info(state).sentence


def test_stop_asks_only_if_much_would_be_lost():
    def asked(state: RunState, began: float, saved: Checkpoint | None = None, refusal: str = ""):
        facts = RunFacts(state=state, history=((began, state),), checkpoint=saved)
        return stop_question(facts, "cats", NOW, refusal=refusal)

    assert asked(RunState.RUNNING, NOW - 60) is None
    assert asked(RunState.STARTING, NOW - 3600) is None
    assert asked(RunState.RUNNING, NOW - 3600, replace(SAVED, time=NOW - 60)) is None, "a checkpoint is a minute old"
    question = asked(RunState.RUNNING, NOW - 3600, SAVED)
    assert question.yes == "Stop without saving"
    assert question.words.startswith("The last 27 min 0 s of training are in no checkpoint.")
    assert asked(RunState.RUNNING, NOW - 600, SAVED).words.startswith("The last 10 min"), "since it was resumed"
    script = asked(RunState.RUNNING, NOW - 7200, refusal="It is a script.")
    assert script.yes == "Stop"
    assert script.words.startswith("It has been running for 2 h 0 min.")


def test_tooltip_names_the_step_to_resume_from():
    assert saved_words(None, NOW) == ""
    assert saved_words(SAVED, NOW) == "saved at step 230, 18:03"
    tip = pause_button_state(RunFacts(state=RunState.LOST, checkpoint=SAVED), "", resuming=False, now=NOW).tip
    assert tip == "Resume from step 230 (18:03)"
    assert "over" in pause_button_state(RunFacts(state=RunState.FAILED), "", resuming=False, now=NOW).tip


def test_run_is_resumed_on_its_own_devices():
    devices = tuple(cpu_devices())
    spec = compose(RecipeChoices(recipe="digits_mlp", devices=("cpu:0", "cpu:1"), strategy="ddp"), devices)
    facts = RunFacts(devices={"cpu:1": {"id": "cpu:1", "label": "CPU 1"}})
    assert spec.python == sys.executable
    assert resume_problems("run", spec, facts, Survey(devices=devices)) == []
    gone = resume_problems("run", spec, facts, Survey(devices=devices[:1]))
    where = "Tick other devices, then choose Resume on ticked devices in the menu of digits_mlp."
    assert gone == [f"CPU 1 (cpu:1) is no longer on this machine. {where}"]
    lost = Survey(devices=devices, samples=(Sample(device_id="cpu:0", time=NOW, lost="fell off the bus"),))
    assert resume_problems("run", spec, facts, lost)[0].startswith("CPU 0 is lost")


def state_history(*moments):
    return tuple((float(when), state) for when, state in moments)


def test_neither_start_nor_pause_nor_watch_counts_as_training():
    history = state_history(
        (1000, RunState.STARTING), (1001, RunState.RUNNING), (1009, RunState.RELEASING), (1010, RunState.PAUSED),
        (9000, RunState.STARTING), (9003, RunState.RUNNING), (9020, RunState.RELEASING), (9025, RunState.FINISHED),
    )
    facts, run_series = RunFacts(state=RunState.FINISHED, plan=PLAN, step=1000, history=history), RunSeries()
    assert took_s(facts, None) == 8 + 17
    for at, step in ((1003.0, 1), (1008.0, 2), (9010.0, 3)):
        run_series.fold([{"t": at, "kind": "metrics", "first": step, "values": {"loss": [1.0]}}])
    assert took_s(facts, run_series.metrics["loss"]) == 6 + 10


def test_speed_after_a_pause_is_measured_since_resuming():
    history = state_history(
        (1000, RunState.STARTING), (1100, RunState.PAUSED), (1190, RunState.STARTING), (1191, RunState.RUNNING)
    )
    facts = RunFacts(state=RunState.RUNNING, plan=PLAN, step=100, history=history)
    before = losses(100, per_s=50, began=1000)
    assert progress_view(facts, before, now=1191).left_s is None  # nothing is measured since resuming yet
    for number in range(100):
        before.append(*([float(value)] for value in (101 + number, 1192 + number / 10, 1.0)))
    now = progress_view(facts, before, now=1202)
    assert now.samples_per_s == pytest.approx(10 * 64, rel=0.05)
