"""The check before a start: free memory, age of readings, and other runs on the devices."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QWidget

from core.config.choices import RecipeChoices
from core.config.finding import Mark
from core.devices.device import Device, Process, Sample, Survey, device_here
from core.history import marks
from core.history.device_use import DeviceUsers
from core.history.summary import RunSummary
from core.queue.decision import HOLDING
from core.queue.folder import own_line
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.spec import write_spec
from gui.features.setup.start import shared_device_question
from gui.machine.start_check import StartConditions, check_start, readings_state, recheck
from gui.widgets.dialogs import ConfirmDialog, ask
from tests.support import no_namespaces
from tests.support.recorded import recorded
from tests.support.running import make_spec, write_recipe
from tests.support.written_runs import write_run
from tests.window.test_missed import finish, write_live

GB = 2**30
GPUS = tuple(
    Device(id=f"GPU-{number}", kind="nvidia", label=f"GPU {number}", name="RTX", memory_total_bytes=24 * GB)
    for number in range(2)
)
CPU = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon", memory_total_bytes=8 * GB, cores=(0,))


def choices(*devices: str) -> RecipeChoices:
    return RecipeChoices(recipe="digits_mlp", devices=devices, strategy="single" if len(devices) == 1 else "ddp")


def survey(**sample) -> Survey:
    defaults = {"memory_used_bytes": GB, "processes": ()}
    samples = tuple(Sample(device_id=each.id, time=1, **{**defaults, **sample}) for each in GPUS)
    return Survey(devices=(*GPUS, CPU), samples=samples)


def ready(current: Survey, *devices: str, stale_age_s=None, held_by=None) -> str:
    result = check_start(
        choices(*devices), StartConditions(survey=current, stale_age_s=stale_age_s or {}, held_by=held_by or {})
    )
    assert result.problems == ()
    first = result.findings[0]
    assert (first.mark is Mark.WARNING) is first.sentence.startswith("Ready, but")
    return first.sentence


def test_the_last_check_looks_at_each_run_of_several_values() -> None:
    given = replace(choices("cpu:0"), training={"learning_rate": "0.01, 0.1, 1"})
    now = StartConditions(survey=survey())
    check = check_start(given, now)
    assert (check.problems, len(check.others)) == ((), 2)
    assert recheck(check, given, now).problems == ()
    first, last = check.others
    found = recheck(replace(check, others=(first, replace(last, devices=("cpu:7",)))), given, now)
    assert ["cpu:7" in each for each in found.problems] == [True]


def test_unused_function_and_ports_over_machines_are_told_before_the_start(tmp_path) -> None:
    source = "def model():\n    pass\n\ndef train_data():\n    pass\n\ndef optimiser():\n    return []\n"
    recipe = replace(choices("cpu:0"), recipe=write_recipe(tmp_path, f"import torch\n{source}"))
    result = check_start(recipe, StartConditions(survey=survey()))
    assert [each.sentence for each in result.findings] == [
        "Ready: CPU 0 is free.", "Please note that the function optimiser() of the recipe is not one that a run calls."
    ]
    current = survey()
    conditions = StartConditions(survey=replace(current, devices=(*current.devices, device_here("node2", CPU))))
    asked = RecipeChoices(
        recipe="digits_cnn", devices=("cpu:0", "node2/cpu:0"), framework="tensorflow", strategy="multi_worker_mirrored"
    )
    refused = check_start(asked, conditions)
    assert refused.offers_open_ports
    (sentence,) = refused.problems
    assert sentence.startswith("Strategy multi_worker_mirrored over several machines opens network ports without a")
    allowed = check_start(replace(asked, allow_open_ports=True), conditions)
    assert (allowed.offers_open_ports, allowed.problems) == (True, ())


PORTS_CHECK = """
from core.config.choices import RecipeChoices
from core.config.finding import Mark
from core.devices.cpu import cpu_devices
from core.devices.device import Survey
from core.runs.facts import RunFacts
from gui.machine.start_check import StartConditions, check_start, resume_problems

now = StartConditions(survey=Survey(devices=tuple(cpu_devices()), samples=()))
for allowed in (False, True):
    choices = RecipeChoices(
        recipe="digits_cnn", devices=("cpu:0",), framework="tensorflow", strategy="multi_worker_mirrored",
        allow_open_ports=allowed,
    )
    check = check_start(choices, now)
    print(check.offers_open_ports, *check.problems)
    print(*resume_problems("RUN", check.spec, RunFacts(), now.survey))
"""


def test_start_check_explains_open_ports_and_offers_to_allow_them():
    """Where the kernel allows no namespace; takes a second, for another process."""
    done = subprocess.run(
        [sys.executable, no_namespaces.__file__, sys.executable, "-c", PORTS_CHECK],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )
    if done.returncode == no_namespaces.CANNOT:
        pytest.skip("this machine allows no user namespace, in which namespaces could be forbidden")
    refused, not_resumed, allowed, resumed = done.stdout.splitlines()
    assert refused.startswith("True Strategy multi_worker_mirrored opens network ports without a password")
    assert refused.endswith("Choose strategy mirrored, or allow open ports (--allow-open-ports).")
    assert not_resumed.endswith(" To resume this run with open ports: trainyard resume RUN --allow-open-ports")
    assert (allowed, resumed) == ("True", "")


# -- free memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "devices", "words"),
    [
        ({}, ("GPU-0",), "Ready: GPU 0 is free, 23.0 GB."),
        ({}, ("GPU-0", "GPU-1"), "Ready: GPU 0 and GPU 1 are free, 23.0 GB or more each."),
        ({"memory_used_bytes": None}, ("GPU-0",), "Ready: GPU 0 is free."),
        ({"processes": (Process(pid=1),)}, ("GPU-0",), "Ready: GPU 0, 23.0 GB free."),
        ({"processes": None}, ("GPU-0",), "Ready: GPU 0, 23.0 GB free."),
        ({"processes": None, "memory_used_bytes": None}, ("GPU-0",), "Ready: GPU 0."),
        ({}, ("cpu:0",), "Ready: CPU 0 is free."),
    ],
)
def test_gpu_is_called_free_only_without_processes(sample, devices, words):
    assert ready(survey(**sample), *devices) == words


def test_old_readings_are_told_before_the_start():
    old = {"GPU-0": 12, "GPU-1": 9}
    assert ready(survey(), "GPU-0", stale_age_s=old) == "Ready, but the last reading of GPU 0 is 12 s old."
    both = ready(survey(), "GPU-0", "GPU-1", stale_age_s=old)
    assert both == "Ready, but the last readings of GPU 0 and GPU 1 are up to 12 s old."
    assert ready(survey(), "cpu:0", stale_age_s=old) == "Ready: CPU 0 is free."


def test_readings_state_changes_only_with_ticked_devices():
    before = readings_state(survey(), {}, {}, ["GPU-0"])
    assert readings_state(survey(utilisation_percent=80), {}, {}, ["GPU-0"]) == before
    assert readings_state(survey(), {"GPU-1": 5}, {}, ["GPU-0"]) == before
    assert readings_state(survey(utilisation_percent=80), {}, {"GPU-1": "blender"}, ["GPU-0"]) == before
    assert readings_state(survey(utilisation_percent=80), {}, {"GPU-0": "blender"}, ["GPU-0"]) != before
    for current, stale_age_s in (
        (survey(), {"GPU-0": 5}),
        (survey(processes=(Process(pid=1),)), {}),
        (survey(memory_used_bytes=3 * GB), {}),
        (survey(lost="gone"), {}),
    ):
        assert readings_state(current, stale_age_s, {}, ["GPU-0"]) != before


ANNA = {"GPU-1": "blender (anna)"}
IN_USE = "GPU 1 is held by blender (anna): 20.0 / 24 GB in use, about 100 % busy"


@pytest.mark.parametrize(
    ("sample", "held_by", "words"),
    [
        ({"memory_used_bytes": 20 * GB, "utilisation_percent": 97}, ANNA, f"Ready, but {IN_USE}."),
        ({"memory_used_bytes": 20 * GB}, {}, "Ready, but GPU 1 is taken: 20.0 / 24 GB in use."),
        ({"utilisation_percent": 97}, ANNA,
         "Ready, but GPU 1 is held by blender (anna): 1.0 / 24 GB in use, about 100 % busy."),
        ({"memory_used_bytes": None, "utilisation_percent": 97}, ANNA,
         "Ready, but GPU 1 is held by blender (anna): about 100 % busy."),
        ({"utilisation_percent": 20}, ANNA, "Ready: GPU 0 and GPU 1 are free, 23.0 GB or more each."),
        ({"utilisation_percent": 97}, {}, "Ready: GPU 0 and GPU 1 are free, 23.0 GB or more each."),
    ],
)
def test_gpu_mostly_used_by_others_is_ready_with_warning(sample, held_by, words):
    current = survey()
    current = replace(current, samples=(current.samples[0], replace(current.samples[1], **sample)))
    assert ready(current, "GPU-0", "GPU-1", held_by=held_by) == words
    assert ready(current, "GPU-0", held_by=held_by) == "Ready: GPU 0 is free, 23.0 GB."


# -- other runs on a device ----------------------------------------------------------------------


def summary(folder, name, devices, state=RunState.RUNNING) -> RunSummary:
    run_dir = folder / name
    run_dir.mkdir()
    write_spec(run_dir, replace(make_spec("digits_mlp"), devices=devices))
    return RunSummary(
        dir=run_dir, name=name, state=state, started=None, ended=None, error=None, last_loss=None, step=0, plan=None
    )


def test_question_and_sentence_name_all_live_runs_on_a_device(tmp_path):
    one, other = summary(tmp_path, "one", ("cpu:0",)), summary(tmp_path, "other", ("cpu:0", "cpu:1"))
    over = summary(tmp_path, "over", ("cpu:0",), RunState.FINISHED)
    users = DeviceUsers()
    assert users.on_devices([one, other, over]) == {"cpu:0": (one, other), "cpu:1": (other,)}
    write_spec(one.dir, replace(make_spec("digits_mlp"), devices=("cpu:1",)))  # resumed on another device
    assert users.on_devices([one]) == {"cpu:1": (one,)}
    used = {"GPU-0": ("A",), "GPU-1": ("A",)}
    check = check_start(choices("GPU-0", "GPU-1"), StartConditions(survey=survey(), used_by=used))
    assert [str(each) for each in check.findings] == ["GPU 0 and GPU 1 are used by A."]
    assert check.busy
    now = StartConditions(survey=survey(), used_by={**used, "GPU-1": ("A", "B")})
    assert [str(each) for each in check_start(choices("GPU-0", "GPU-1"), now).findings] == [
        "GPU 0 is used by A.", "GPU 1 is used by A and B.",
    ]
    current, spec = survey(), make_spec("digits_mlp", devices="GPU-0,GPU-1")
    asked = shared_device_question(
        "Start", spec, current, {"GPU-0": {"a": "A", "b": "B"}, "GPU-1": {"b": "B"}}, agreed=frozenset()
    )
    assert (asked.question, asked.yes) == ("Start digits_mlp and share GPU 0 and GPU 1 with A and B?", "Start anyway")
    assert asked.words == "Sharing a device slows down all runs, and any may run out of memory."
    asked = shared_device_question("Resume", spec, current, {"GPU-1": {"b": "B"}}, agreed=frozenset())
    assert (asked.question, asked.yes) == ("Resume digits_mlp and share GPU 1 with B?", "Resume anyway")
    assert asked.words == "Sharing a device slows down both runs, and either may run out of memory."
    assert shared_device_question("Start", spec, current, {"GPU-2": {"a": "A"}}, agreed=frozenset()) is None


@pytest.mark.parametrize(
    ("is_destructive", "has_other", "proposed"),
    [(False, True, "otherButton"), (True, True, "noButton"), (False, False, "noButton"), (True, False, "noButton")],
)
def test_one_answer_is_proposed_highlighted_and_given_by_enter(hold, qtbot, is_destructive, has_other, proposed):
    window, answers = hold(QWidget(), 300, 200), []
    other = ("Add to queue", lambda: answers.append("otherButton")) if has_other else None
    yes = lambda: answers.append("yesButton")  # noqa: E731
    ask(window, yes, question="Start?", words="It shares.", yes="Start", is_destructive=is_destructive, other=other)
    dialog = window.findChild(ConfirmDialog)
    qtbot.waitUntil(lambda: dialog.focusWidget() is not None)
    buttons = dialog.findChildren(QPushButton)
    assert [each.objectName() for each in buttons if each.isDefault()] == [proposed]
    assert [each.objectName() for each in buttons if each.property("role") == "primary"] in ([proposed], [])
    assert dialog.focusWidget().objectName() == proposed
    qtbot.keyClick(dialog.focusWidget(), Qt.Key.Key_Return)
    assert answers == ([proposed] if proposed != "noButton" else [])
    assert not dialog.isVisible()


def test_confirmation_covers_only_the_named_runs(assemble, runs_root, monkeypatch):
    def live(name: str) -> Path:
        run_dir = write_live(runs_root, f"20260101-000000-{name}")
        marks.rename(run_dir, name)
        return run_dir

    one, made, started = live("one"), write_run(runs_root.with_name("made"), "20260101-000001-made"), []
    monkeypatch.setattr(Run, "start", lambda spec, root: started.append(spec) or Run.attach(made))
    panel = assemble("run", "start", "devices")
    panel.tick("cpu:0")
    panel.until(lambda: "used by" in panel.start_status.text(), "that its device is in use")
    panel.start()
    assert "one?" in panel.asked().text
    live("other")  # another run started while the question was open
    panel.answer("yesButton")
    panel.until(lambda: panel.question() is not None and "other" in panel.question().text, "the question on both")
    assert " one" in panel.question().text
    assert started == []
    finish(one, "finished")  # the end of a run is no reason to ask again
    panel.answer("yesButton")
    panel.until(lambda: [spec.devices for spec in started] == [("cpu:0",)], "the start")
    assert panel.question() is None


def test_claims_of_runs_in_other_folders_are_told_in_the_list_before_the_start_and_in_the_question(form, monkeypatch):
    started, line = [], own_line().line
    monkeypatch.setattr(Run, "start", lambda spec, root: started.append(spec))
    form.tick("cpu:0")
    form.until_ready()
    fields = {"state": HOLDING, "name": "theirs", "devices": ["cpu:0"], "since": 1.0}
    ticket = line.put("20260101-000000-theirs", fields)
    form.until_status("CPU 0 is used by theirs (another folder).")
    assert (form.device("cpu:0").status, form.device("cpu:0").free) == ("runs theirs (another folder)", False)
    form.start()
    assert "share CPU 0 with theirs (another folder)?" in form.asked().text
    form.answer("noButton")
    line.remove("20260101-000000-theirs", ticket)
    form.until_status("Ready: CPU 0 is free.")
    monkeypatch.setattr(form.window.services.queue, "_due", math.inf)  # the last reading is from before the claim
    ticket = line.put("20260101-000000-theirs", fields)
    form.start()
    form.answer("noButton")
    assert started == []
    line.remove("20260101-000000-theirs", ticket)


def test_resume_question_names_other_runs_but_not_itself(assemble, runs_root, monkeypatch):
    run_dir, resumed = recorded(runs_root, last="stopped"), []
    monkeypatch.setattr(Run, "resume", lambda run_dir, **_: resumed.append(run_dir))
    panel = assemble("run", "start", "devices")
    panel.open_run()
    service, session = panel.window.services.run_list, panel.window.services.session
    (mine,) = service.summaries
    monkeypatch.setattr(service, "poll", lambda **_: None)
    service.on_devices = {"cpu:0": (mine, replace(mine, dir=runs_root / "other", name="other"))}
    panel.until(panel.pause_button.isEnabled, "Resume to be enabled")
    panel.pause_button.click()
    question = panel.asked().question.text()
    assert question.startswith("Resume digits_mlp and share CPU 0 with ")
    assert question.endswith(" other?")
    assert " and " not in question.partition(" with ")[2], "another window has resumed it just now"
    assert not session.is_resuming
    panel.answer("yesButton")
    assert session.is_resuming
    panel.until(lambda: not session.is_resuming, "the end of the resume")
    assert resumed == [run_dir]
