"""Output of the command line: shared devices, refused devices, tables, help, stop messages and outcome lines."""

import argparse
import json
import os
import re
import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from core.cli import __main__, output
from core.cli.commands import control, start
from core.cli.commands.start import refusal
from core.cli.output import outcome
from core.config.choices import RecipeChoices, compose
from core.devices.device import Device, Process, Sample, Survey
from core.history.device_use import devices_in_use, sharing_sentence
from core.language import join_sentences, tr
from core.runs.directory import new_directory
from core.runs.facts import RunFacts, RunState
from core.runs.run import LAUNCH_S, Run
from core.schema.event_kinds import Release, StateChange, StopStep, SupervisorStart, TerminatedProcess, Verdict
from core.schema.events import Writer, metrics_line
from core.schema.paths import EVENTS
from core.schema.spec import RunSpec, write_spec
from core.system import processes, procfs
from core.system.own_processes import SUPERVISOR
from tests.nvml.standin import StandIn
from tests.support.commands import call
from tests.support.recorded import recorded
from tests.support.running import make_spec
from tests.support.waiting import PATIENCE_S, wait_until

GB = 2**30
CPUS = tuple(Device(id=f"cpu:{number}", kind="cpu", label=f"CPU {number}", name="CPU") for number in range(2))
GPUS = tuple(
    Device(id=f"GPU-{number}-uuid", kind="nvidia", label=f"GPU {number}", name="RTX", memory_total_bytes=24 * GB)
    for number in range(2)
)
LOST = "GPU {index} cannot be listed: the driver says “{words}”. {remedy}"
LOST_2 = tr(LOST, index=2, words="GPU is lost", remedy="Look into the kernel's log.")
LOST_6 = tr(LOST, index=6, words="GPU is lost", remedy="A reboot often helps.")
BOTH_LOST = join_sentences([LOST_2, LOST_6])
MISMATCH = "The NVIDIA driver cannot be asked: “mismatch”. Reboot."
MIXED = (
    "CPU devices and NVIDIA GPUs cannot be used together (GPU 0, CPU 0). A run uses one kind of device: choose one "
    "kind."
)
EVERY, NAMES = (*GPUS, *CPUS), "gpu:0, gpu:1, cpu:0, cpu:1"


def written_run(root: Path, *states: str, losses: tuple[float, ...] = ()) -> Path:
    """Write the folder of a run on cpu:0 whose supervisor is this process."""
    run_dir = new_directory(root, "digits")
    write_spec(run_dir, make_spec("digits_mlp"))
    identity = processes.identify(os.getpid())
    place = processes.here()
    writer = Writer(run_dir / EVENTS / "supervisor.jsonl")
    writer.write(SupervisorStart(pid=identity.pid, created=identity.created, **asdict(place)))
    for state in states:
        writer.write(StateChange(state=state))
    writer.close()
    if losses:
        writer = Writer(run_dir / EVENTS / "worker-0.jsonl")
        writer.write_json(metrics_line(since=1.0, until=2.0, first_step=1, values={"loss": losses}))
        writer.close()
    return run_dir


FAILED = ("starting", "running", "releasing", "failed")


def test_runs_option_works_before_and_after_the_command(tmp_path: Path, capsys) -> None:
    run_dir = written_run(tmp_path / "runs", *FAILED)
    for arguments in (("--runs", tmp_path / "runs", "runs"), ("runs", "--runs", tmp_path / "runs")):
        assert run_dir.name in call(capsys, *arguments)[1]
    both = ("--runs", tmp_path / "empty", "runs", "--runs", tmp_path / "runs")
    assert run_dir.name in call(capsys, *both)[1], "the last --runs option counts"
    assert run_dir.name not in call(capsys, "runs", "--runs", tmp_path / "empty")[1]


def test_nan_loss_is_a_string_in_json(runs_root: Path, capsys) -> None:
    run_dir = written_run(runs_root, *FAILED, losses=(0.5, float("nan")))
    code, out, err = call(capsys, "runs", "--json", "--runs", runs_root)
    assert (code, err) == (0, "")
    assert json.loads(out)[0]["loss"] == "nan"
    shown = json.loads(call(capsys, "show", run_dir.name, "--json", "--runs", runs_root)[1])
    assert shown["metrics"]["loss"]["last"] == "nan"


def test_run_list_has_headings_and_a_message_when_empty(runs_root: Path, capsys) -> None:
    code, out, err = call(capsys, "runs", "--runs", runs_root)
    assert (code, out, err) == (0, "", f"trainyard: There is no folder {runs_root}, so there are no runs yet.\n")
    assert call(capsys, "runs", "--json", "--runs", runs_root) == (0, "[]\n", "")
    run_dir = written_run(runs_root, *FAILED, losses=(0.5,))
    heading, line = call(capsys, "runs", "--runs", runs_root)[1].splitlines()
    assert heading.split() == ["RUN", "STATE", "STEP", "LOSS", "DIFFERENCE"]
    assert line.split()[:4] == [run_dir.name, "failed", "1", "0.5"]
    assert line.endswith(" · batch 64 · seed 0")
    assert call(capsys, "catalog")[1].startswith("FRAMEWORK ")


def test_devices_command_shows_memory_utilisation_and_processes(nvml: StandIn, runs_root: Path, capsys) -> None:
    nvml.write(
        gpus=2, gpu0={"unsupported": "temperature,power"},
        gpu1={"memory_used": 20 * GB, "utilisation": 97, "compute": f"{os.getpid()}:{20 * GB}",
              "temperature": 71, "power_mw": 401_000, "power_limit_mw": 450_000},
    )
    run_dir = written_run(runs_root, "starting", "running")
    heading, *lines = call(capsys, "devices", "--runs", runs_root)[1].splitlines()
    assert heading.split() == ["DEVICE", "NAME", "MEMORY", "UTILISATION", "TEMPERATURE", "POWER", "HELD", "BY"]
    by_name = {line.split()[0]: line for line in lines}
    assert "20.0 GB of 24.0 GB" in by_name["gpu:1"]
    assert re.search("97 % +71 °C +401 of 450 W +pid", by_name["gpu:1"])
    assert re.search("% +- +- ", by_name["gpu:0"]), "a missing reading is a dash"
    assert f"pid {os.getpid()} " in by_name["gpu:1"]
    assert f"run {run_dir.name}" in by_name["cpu:0"]
    rows = {row["short_name"]: row for row in json.loads(call(capsys, "devices", "--json", "--runs", runs_root)[1])}
    assert rows["gpu:1"]["processes"] == [{"pid": os.getpid(), "memory_used_bytes": 20 * GB}]
    assert (rows["gpu:1"]["temperature_celsius"], rows["gpu:1"]["power_watts"]) == (71, 401)
    assert (rows["gpu:0"]["temperature_celsius"], rows["gpu:0"]["power_watts"]) == (None, None)
    assert rows["cpu:0"]["runs"] == [run_dir.name]
    assert (rows["gpu:0"]["processes"], rows["gpu:0"]["runs"]) == ([], [])


def test_devices_command_says_what_the_driver_says_is_wrong(nvml: StandIn, runs_root: Path, capsys) -> None:
    nvml.write(gpus=2, gpu1={"recovery": 1})
    _, well, ill, *_ = call(capsys, "devices", "--runs", runs_root)[1].splitlines()
    words = "The driver says that GPU 1 needs a reset (its recovery action). End what runs on it first."
    assert (words in ill, "recovery" in well) == (True, False)
    rows = json.loads(call(capsys, "devices", "--json", "--runs", runs_root)[1])
    assert [words in (row["fault"] or "") for row in rows[:2]] == [False, True]


# -- shared devices --------------------------------------------------------------------------------


def survey_with_processes(*processes_there: Process, used: int | None = None) -> Survey:
    return Survey(
        devices=(*GPUS, *CPUS),
        samples=(Sample(device_id=GPUS[1].id, time=1.0, memory_used_bytes=used, processes=processes_there),),
    )


def sharing_message(found: Survey, root: Path, *chosen: str) -> str | None:
    return sharing_sentence([each for each in found.devices if each.short_name in chosen], devices_in_use(found, root))


def test_run_whose_supervisor_never_came_up_uses_no_device(runs_root: Path) -> None:
    run_dir = new_directory(runs_root, "digits")
    write_spec(run_dir, make_spec("digits_mlp"))
    found = survey_with_processes()
    later = time.time() + PATIENCE_S  # so that it counts as just launched for as long as this takes
    os.utime(run_dir / "spec.json", (later, later))
    assert f"CPU 0 is used by run {run_dir.name}." in str(sharing_message(found, runs_root, "cpu:0"))
    earlier = time.time() - LAUNCH_S - 1
    os.utime(run_dir / "spec.json", (earlier, earlier))
    assert sharing_message(found, runs_root, "cpu:0") is None
    # A machine may be so busy that a supervisor takes longer to come up.
    command = ["sh", "-c", "read line", SUPERVISOR, str(run_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as supervisor:
        wait_until(lambda: SUPERVISOR in procfs.words(supervisor.pid), "its own command line")
        assert f"CPU 0 is used by run {run_dir.name}." in str(sharing_message(found, runs_root, "cpu:0"))


def test_runs_and_processes_on_shared_device_are_named(runs_root: Path) -> None:
    active_run, _ = written_run(runs_root, "starting", "running"), written_run(runs_root, *FAILED)
    large, small = Process(pid=os.getpid(), memory_used_bytes=18 * GB), Process(pid=2**22 + 1, memory_used_bytes=GB)
    found = survey_with_processes(small, large)
    assert (
        sharing_message(found, runs_root, "cpu:0")
        == f"This run shares its devices: CPU 0 is used by run {active_run.name}."
    )
    message = sharing_message(found, runs_root, "gpu:1") or ""
    assert message.startswith(f"This run shares its devices: GPU 1 is used by pid {os.getpid()} ")
    assert message.endswith(" with 19.0 GB of its 24.0 GB.")
    assert sharing_message(found, runs_root, "cpu:1", "gpu:0") is None


def test_only_processes_with_much_memory_are_mentioned(runs_root: Path) -> None:
    desktop = Process(pid=os.getpid(), memory_used_bytes=GB)
    assert sharing_message(survey_with_processes(desktop), runs_root, "gpu:1") is None
    unknown = survey_with_processes(Process(pid=os.getpid()), used=20 * GB)
    assert "with 20.0 GB of its 24.0 GB" in (sharing_message(unknown, runs_root, "gpu:1") or ""), "that of the device"


def test_invalid_runs_folder_does_not_break_sharing_check(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert sharing_message(survey_with_processes(), tmp_path / "file", "cpu:0") is None


class _StartedError(Exception):
    pass


def test_run_on_shared_device_warns_and_starts(runs_root: Path, capsys, monkeypatch) -> None:
    active_run = written_run(runs_root, "starting", "running")

    def refuse(spec: RunSpec, root: Path) -> None:
        raise _StartedError

    monkeypatch.setattr(start.Run, "start", refuse)
    arguments = ["run", "digits_mlp", "--devices", "cpu:0", "--runs", str(runs_root)]
    with pytest.raises(_StartedError):
        __main__.main(arguments)
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"trainyard: This run shares its devices: CPU 0 is used by run {active_run.name}.\n")
    with pytest.raises(_StartedError):
        __main__.main(["run", "digits_mlp", "--devices", "cpu:1", "--runs", str(runs_root)])
    assert capsys.readouterr() == ("", "")


# -- refused devices -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "listed", "banner", "message"),
    [
        (("cpu:0",), EVERY, BOTH_LOST, None),
        (("gpu:9",), EVERY, BOTH_LOST, f"There is no device 'gpu:9' here. Choose from: {NAMES}."),
        (("cpu:9",), EVERY, BOTH_LOST, f"There is no device 'cpu:9' here. Choose from: {NAMES}."),
        (("gpu:2",), EVERY, BOTH_LOST, f"There is no device 'gpu:2' here. Choose from: {NAMES}. {LOST_2}"),
        (("GPU-6",), EVERY, BOTH_LOST, f"There is no device 'GPU-6' here. Choose from: {NAMES}. {LOST_2} {LOST_6}"),
        ((), EVERY, BOTH_LOST, f"No device is chosen. Choose at least one of: {NAMES}."),
        (("gpu:0", "cpu:0"), EVERY, LOST_2, MIXED),
        (("gpu:0",), CPUS, MISMATCH, f"There is no device 'gpu:0' here. Choose from: cpu:0, cpu:1. {MISMATCH}"),
        (("cpu:7",), CPUS, MISMATCH, "There is no device 'cpu:7' here. Choose from: cpu:0, cpu:1."),
        ((), (), MISMATCH, f"No device is chosen. Choose at least one of: none (no device was found). {MISMATCH}"),
    ],
)
def test_refusal_mentions_only_trouble_with_named_devices(devices, listed, banner, message) -> None:
    spec = compose(RecipeChoices(recipe="digits_mlp", devices=devices), listed)
    assert refusal(spec, Survey(devices=listed, banner=banner)) == message


# -- help ----------------------------------------------------------------------------------------


def test_help_shows_defaults(capsys) -> None:
    text = " ".join(call(capsys, "run", "--help")[1].split())
    for words in (
        "--epochs N number of passes over the training data; default: 10", "accumulation steps; default: 64",
        "initial weights; default: 0", "need less memory; default: 1", "pipeline of PyTorch only; default: 4",
        "for PyTorch only; default: 0", "latest checkpoints to keep; default: 2", "SIGINT; default: 5; script: 30",
        "nccl is for GPUs only; choose auto, nccl, hierarchical_copy or one_device; for strategy mirrored of",
        "torch.compile for PyTorch, XLA for TensorFlow and Keras",
    ):
        assert words in text
    assert "`trainyard runs` lists them" in " ".join(call(capsys, "show", "--help")[1].split())


# -- stop ----------------------------------------------------------------------------------------


STOPPING = RunFacts(state=RunState.STOPPING, stop_steps=(StopStep(time=1.0, name="asked", grace_s=10.0),))
KILLED = replace(STOPPING, stop_steps=(*STOPPING.stop_steps, StopStep(time=2.0, name="SIGKILL", grace_s=None)))
RELEASING = replace(KILLED, state=RunState.RELEASING, waiting="Waiting for the memory of GPU 0.")
LEFT = TerminatedProcess(pid=4711, created=1.0, name="loader", command=None, signal="SIGKILL", by="supervisor")
STOPPED = replace(RELEASING, state=RunState.STOPPED, ended_processes=(LEFT,))


class ScriptedRun:
    """A run whose facts advance by one at each poll."""

    id = "played"
    dir = Path("played")

    def __init__(self, *facts: RunFacts) -> None:
        self.facts, *self._later = facts
        self.asked: list[str] = []

    def poll(self) -> list[object]:
        if self._later:
            self.facts = self._later.pop(0)
        return []

    def catch_up(self) -> list[object]:
        return []

    def request(self, what: str) -> None:
        self.asked.append(what)


def stopped(run: ScriptedRun, monkeypatch: pytest.MonkeyPatch, **given: object) -> int:
    monkeypatch.setattr(control, "find", lambda _: run)
    monkeypatch.setattr(control, "POLL_S", 0.0)
    return control.stop(argparse.Namespace(**{"json": False, "force": False, **given}))


def test_stop_reports_waiting_and_killed_processes(capsys, monkeypatch) -> None:
    run = ScriptedRun(RunFacts(state=RunState.RUNNING), STOPPING, STOPPING, KILLED, RELEASING, STOPPED)
    assert stopped(run, monkeypatch) == 0
    out, err = capsys.readouterr()
    assert run.asked == ["stop"]
    assert out == "played: stopped\n"
    *waited_for, killed = err.splitlines()
    assert waited_for == [
        "trainyard: The workers were asked to stop; SIGINT follows in 10 s.",
        "trainyard: SIGKILL was sent to the workers.",
        "trainyard: Waiting for the memory of GPU 0.",
    ]
    assert killed == ("trainyard: The workers were killed (SIGKILL); left over and ended (SIGKILL): pid 4711 loader.")


@pytest.mark.parametrize(
    ("first_facts", "asked"), [(RunFacts(state=RunState.RUNNING), ["stop", "force"]), (STOPPING, ["force"])]
)
def test_stop_with_force_sends_force_request(first_facts: RunFacts, asked: list[str], capsys, monkeypatch) -> None:
    run = ScriptedRun(first_facts, STOPPING, KILLED, STOPPED)
    assert stopped(run, monkeypatch, force=True) == 0
    assert run.asked == asked
    assert capsys.readouterr().err.splitlines()[:2] == [
        "trainyard: The workers were asked to stop.",
        "trainyard: SIGKILL was sent to the workers.",
    ]


def test_stop_with_json_prints_no_messages(capsys, monkeypatch) -> None:
    monkeypatch.setattr(control, "say_run", lambda *_: None)
    stopped(ScriptedRun(RunFacts(state=RunState.RUNNING), KILLED, STOPPED), monkeypatch, json=True)
    assert capsys.readouterr() == ("", "")


# -- the last line -------------------------------------------------------------------------------


def finding(device: str, verdict: Verdict) -> Release:
    return Release(
        device_id=device, verdict=verdict, before_bytes=0, peak_bytes=1, after_bytes=0, seconds=1.0, sentence="Told."
    )


def test_outcome_line_has_loss_and_memory_verdict(tmp_path: Path) -> None:
    states = ("starting", "running", "releasing", "finished")
    run = Run.attach(written_run(tmp_path, *states))
    run.catch_up()
    assert outcome(run) == f"{run.id}: finished"
    run = Run.attach(written_run(tmp_path, *states, losses=(0.040712,)))
    found = {"a": finding("a", Verdict.RELEASED), "b": finding("b", Verdict.RELEASED)}
    run.catch_up()
    run.facts = replace(run.facts, releases=found)
    assert outcome(run) == f"{run.id}: finished, loss 0.04071, memory released"
    run.facts = replace(run.facts, releases={**found, "b": finding("b", Verdict.HELD_BY_OTHERS)})
    assert outcome(run) == f"{run.id}: finished, loss 0.04071, memory held by others"


def test_failed_run_error_names_the_log_file(runs_root: Path, capsys) -> None:
    run_dir = written_run(runs_root, *FAILED[:-1])
    writer = Writer(run_dir / EVENTS / "supervisor.jsonl")
    writer.write(StateChange(state="failed", error="Worker 0: ValueError.", traceback="Traceback: ..."))
    writer.close()
    assert "log.txt" not in call(capsys, "show", run_dir.name, "--runs", runs_root)[1], "there is none yet"
    (run_dir / "log.txt").write_text("Traceback: ...")
    hint = f"The traceback and all output of the run are in {run_dir / 'log.txt'}."
    assert hint in call(capsys, "show", run_dir.name, "--runs", runs_root)[1]
    code, out, err = call(capsys, "attach", run_dir.name, "--runs", runs_root)
    assert (code, out) == (1, f"{run_dir.name}: failed\n")
    assert err.endswith(f"trainyard: Worker 0: ValueError. {hint}\n")


def test_control_characters_are_replaced_in_output(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("pid 7 \x1b]0;mine\x07 holds\tall\nof it: größer")
    output.say("two\nlines", lines=True)
    output.warn("\x1b[2J")
    out, err = capsys.readouterr()
    assert (out, err) == ("pid 7 ?]0;mine? holds\tall?of it: größer\ntwo\nlines\n", "trainyard: ?[2J\n")


def test_a_run_whose_last_step_has_no_loss_is_followed(runs_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = recorded(runs_root)
    with (run_dir / "events" / "worker-0.jsonl").open("a") as file:
        file.write('{"t": 1750000050.0, "kind": "metrics", "since": 1.75e9, "first": 51, "values": {"loss": [null]}}\n')
    path = run_dir / "events" / "worker-0.jsonl"
    path.write_text(path.read_text().replace(": ", ":"))  # as workers write it
    code, out, _ = call(capsys, "attach", run_dir.name, "--runs", runs_root)
    assert code == 0
    assert out.startswith(f"{run_dir.name}: finished, loss 0.02")
