"""User scripts run unchanged: how they are started, what they import, how they end, and that no processes are left."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.cli.__main__ import main
from core.cli.output import failure_words, log_of
from core.config.presets import shell_line
from core.devices.cpu import cpu_devices
from core.diagnosis.program_output import TRACEBACK, as_printed, last_traceback
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.paths import EVENTS
from core.schema.settings import StopTimeouts
from core.system import processes
from core.system.own_processes import own_command
from tests.support.patient_supervisor import INTERRUPTS_AGAIN_SOON, start_patiently
from tests.support.running import CAME_UP, Followed, script_spec, source_spec, start, train
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "scripts"
ODD = SCRIPTS / "odd"
TELLS = """\
import json, os, signal, sys
json.dump(
    {
        "argv": sys.argv, "name": __name__, "path": sys.path, "cwd": os.getcwd(), "file": __file__,
        "umask": os.umask(0),
        "ignored": [each.name for each in signal.Signals if signal.getsignal(each) is signal.SIG_IGN],
        "environment": dict(os.environ), "cores": sorted(os.sched_getaffinity(0)), "modules": sorted(sys.modules),
    },
    open(os.environ["TOLD"] + os.environ.get("RANK", ""), "w"),
)
"""


@pytest.fixture
def tells(tmp_path: Path) -> Path:
    """A script that records its arguments and environment."""
    path = tmp_path / "project" / "tells.py"
    path.parent.mkdir()
    path.write_text(TELLS)
    return path


def report_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_script_runs_exactly_as_from_a_shell_and_by_the_command_that_is_shown(tmp_path, runs_root, tells) -> None:
    here, arguments = tmp_path / "here", ["--lr", "0.1", "a b", "--", "-x"]
    here.mkdir()
    environment = {"TOLD": str(tmp_path / "panel.json"), "MINE": "a=b c"}
    spec = script_spec(tells, *arguments, cwd=here, environment=environment)
    assert train(spec, runs_root).state is RunState.FINISHED
    panel = report_of(tmp_path / "panel.json")

    subprocess.run(
        [sys.executable, str(tells), *arguments], cwd=here, check=True,
        env={**os.environ, **environment, "TOLD": str(tmp_path / "shell.json")},
    )
    shell = report_of(tmp_path / "shell.json")
    for name in ("argv", "name", "path", "cwd", "file", "modules", "umask"):
        assert panel[name] == shell[name], name
    assert panel["ignored"] == ["SIGPIPE", "SIGXFSZ"], "as Python itself does; whoever runs the tests may ignore more"
    mine = panel["environment"]
    assert mine["MINE"] == "a=b c"
    assert mine["PWD"] == str(here)
    assert not [name for name in mine if name.startswith("PYTHONPATH")]

    (tmp_path / "panel.json").unlink()
    line = shell_line(spec, {device.id: device.cores for device in cpu_devices()})
    subprocess.run(["/bin/sh", "-c", line], check=True)
    by_line = report_of(tmp_path / "panel.json")
    for name in ("argv", "cwd", "cores", "path"):
        assert by_line[name] == panel[name], name
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MINE"):
        assert by_line["environment"][name] == mine[name], name
    assert "TRAINYARD_METRICS" not in by_line["environment"]


def test_module_runs_as_with_python_m(tmp_path: Path, runs_root: Path) -> None:
    package = tmp_path / "mine" / "train"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "fit.py").write_text(TELLS)
    spec = script_spec(
        cwd=tmp_path / "mine", module="train.fit", environment={"TOLD": str(tmp_path / "told.json")}
    )

    assert train(spec, runs_root).state is RunState.FINISHED

    found = report_of(tmp_path / "told.json")
    assert found["argv"] == [str(package / "fit.py")]
    assert found["name"] == "__main__"
    assert found["path"][0] == str(tmp_path / "mine")


def test_user_packages_named_like_ours_are_imported(tmp_path: Path, runs_root: Path) -> None:
    project = ODD / "own_packages"
    ended = train(script_spec(project / "train.py", "x", cwd=tmp_path), runs_root)

    assert ended.state is RunState.FINISHED, ended.run.log_end()
    assert ended.losses() == [1.0, 0.5, 0.25]
    assert f"['x'] __main__ {project}" in ended.run.log_end()


def test_process_per_device_gets_the_torchrun_environment(tmp_path: Path, runs_root: Path, tells: Path) -> None:
    spec = script_spec(
        tells, cwd=tmp_path, devices="cpu:0,cpu:1", launch="per-device", environment={"TOLD": str(tmp_path / "told")}
    )

    ended = train(spec, runs_root)

    assert ended.state is RunState.FINISHED
    ranks = [report_of(tmp_path / f"told{rank}") for rank in range(2)]
    cores = {device.id: sorted(device.cores) for device in cpu_devices()}
    for rank, found in enumerate(ranks):
        environment = found["environment"]
        wanted = {
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0,
            "ROLE_RANK": rank, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": len(cores[f"cpu:{rank}"]),
            "CUDA_VISIBLE_DEVICES": "",
        }
        assert {name: environment[name] for name in wanted} == {name: str(value) for name, value in wanted.items()}
        assert found["cores"] == cores[f"cpu:{rank}"]
    ports = {found["environment"]["MASTER_PORT"] for found in ranks}
    assert len(ports) == 1
    assert 1024 <= int(ports.pop()) < 65536


def test_workers_of_tensorflow_find_each_other_by_tf_config(tmp_path: Path, runs_root: Path) -> None:
    strategy = "if False:\n    import tensorflow as tf\n    tf.distribute.MultiWorkerMirroredStrategy()\n"
    told, two = tmp_path / "told", {"devices": "cpu:0,cpu:1", "launch": "per-device"}
    spec = source_spec(tmp_path, TELLS + strategy, environment={"TOLD": str(told)}, **two)

    assert train(spec, runs_root).state is RunState.FINISHED

    found = [json.loads(report_of(Path(f"{told}{rank}"))["environment"]["TF_CONFIG"]) for rank in range(2)]
    assert [each["task"] for each in found] == [{"type": "worker", "index": rank} for rank in range(2)]
    workers = found[0]["cluster"]["worker"]
    assert found[1]["cluster"]["worker"] == workers
    assert len(set(workers)) == 2
    assert all(each.startswith("127.0.0.1:") for each in workers)


def test_output_is_logged_byte_for_byte(tmp_path: Path, runs_root: Path) -> None:
    script = ODD / "rubbish.py"
    source = script.read_text().replace("os.urandom(200_000)", "bytes(range(256)) * 800")

    ended = train(source_spec(tmp_path, source), runs_root)

    by_shell = subprocess.run([sys.executable, tmp_path / "train.py"], capture_output=True, check=True).stdout
    assert (ended.run.dir / "log.txt").read_bytes() == by_shell
    assert ended.losses() == [0.5, 0.25, 0.125]
    assert ended.run.facts.step == 3


PICKY = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--arch', required=True)
parser.parse_args()
"""
MISSING = "the following arguments are required: --arch"


@pytest.mark.parametrize(
    ("source", "error", "where"),
    [
        ("def fit():\n    raise KeyError('no column')\n\nfit()\n",
         "train.py ended with exit code 1: KeyError: 'no column'.", "It was raised in train.py, line 2, in fit()."),
        (PICKY, f"train.py ended with exit code 2. Its last line of output: train.py: error: {MISSING}.", None),
        ((ODD / "reads_stdin.py").read_text(),
         "train.py ended with exit code 1: EOFError: EOF when reading a line.", "It was raised in train.py, line 3."),
    ],
    ids=["an exception", "an error of argparse", "a look at its input"],
)
def test_script_that_fails_is_quoted(source, error, where, tmp_path: Path, runs_root: Path) -> None:
    ended = train(source_spec(tmp_path, source), runs_root)
    assert ended.states == [*CAME_UP, RunState.RELEASING, RunState.FAILED]
    assert ended.run.facts.error == error
    assert failure_words(ended.run) == where
    assert bool(ended.run.facts.traceback) == bool(where)


def test_last_traceback_is_read_as_shown_on_a_terminal() -> None:
    trace = f"{TRACEBACK}\n  File 'x', line 1\nValueError: bad sample\n"
    ranked = "".join(f"[rank1]: {line}\n" for line in trace.splitlines())
    assert last_traceback(as_printed(f"step 1\n\x1b[31m{ranked}\x1b[0m")) == trace
    assert as_printed("10 %\r20 %\r30 %\r\ngone\n") == "30 %\ngone\n"


def test_failed_rank_is_named_although_rank_0_succeeds(tmp_path: Path, runs_root: Path) -> None:
    spec = script_spec(ODD / "failing_rank.py", cwd=tmp_path, devices="cpu:0,cpu:1", launch="per-device")

    ended = train(spec, runs_root)

    assert ended.failure == (
        "failing_rank.py (Worker 1 on cpu:1) ended with exit code 1: RuntimeError: the data of this rank are missing."
    )
    assert "missing" not in (ended.run.dir / "log.txt").read_text()
    assert "missing" in (ended.run.dir / "log.1.txt").read_text()
    assert log_of(ended.run) == (
        f"The traceback and all output of the run are in {ended.run.dir / 'log.txt'}, {ended.run.dir / 'log.1.txt'}."
    )


def test_leftover_processes_are_terminated_and_reported(tmp_path: Path, runs_root: Path) -> None:
    ended = train(script_spec(ODD / "forks.py", cwd=tmp_path), runs_root)

    assert ended.state is RunState.FINISHED
    assert ended.losses() == [0.5]
    assert [each.by for each in ended.run.facts.ended_processes] == ["supervisor"]
    assert processes.tagged(ended.run.id) == []


def test_stop_sends_sigint_first_so_that_the_script_can_save(tmp_path: Path, runs_root: Path) -> None:
    spec = script_spec(ODD / "saves_on_interrupt.py", cwd=tmp_path)
    assert spec.stop_timeouts == StopTimeouts(interrupt_s=30.0)
    followed = start(replace(spec, stop_timeouts=StopTimeouts(interrupt_s=PATIENCE_S)), runs_root).until_trained()

    ended = followed.stop()

    assert ended.states == [*CAME_UP, RunState.STOPPING, RunState.RELEASING, RunState.STOPPED]
    assert [(step.name, step.grace_s) for step in ended.run.facts.stop_steps] == [("SIGINT", PATIENCE_S)]
    assert (tmp_path / "saved.txt").read_text() == "saved\n"


def until_read(followed: Followed) -> Followed:
    """Wait until the supervisor has read the first step: after a stop it would show that the script trains on.

    The supervisor reads before it answers, and answers a stop that follows this answer only after it has read again.
    """
    followed.until_trained()
    followed.run.request("pause")
    wait_until(lambda: followed.poll().run.facts.notices, "its answer: a script cannot be paused")
    return followed


DEAF = """\
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('step 1 loss 1.0', flush=True)
time.sleep(3600)
"""
LOSES = """\
import signal, time
lost = False
def lose(*_):
    global lost
    lost = True
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGINT, lose)
step = 0
while True:
    if lost or not step:
        step += 1
        print(f'step {step} loss: {1 / step}', flush=True)
    time.sleep(0.05)
"""
"""Trains on after SIGINT, as Keras does: an interrupt within one of its callbacks is lost."""


@pytest.mark.parametrize(
    ("source", "timeouts", "options", "signals"),
    [
        (DEAF, StopTimeouts(interrupt_s=0.2, terminate_s=0.2), [], ["SIGINT", "SIGTERM", "SIGKILL"]),
        # Only the steps after the first SIGINT show that it trains on, so the second one does not come before.
        (LOSES, StopTimeouts(interrupt_s=PATIENCE_S), [INTERRUPTS_AGAIN_SOON], ["SIGINT", "SIGINT"]),
    ],
    ids=["stronger ones", "a second SIGINT"],
)
def test_script_that_does_not_end_gets_more_signals(source, timeouts, options, signals, tmp_path, runs_root) -> None:
    spec = replace(source_spec(tmp_path, source), stop_timeouts=timeouts)
    ended = until_read(start_patiently(spec, runs_root, *options)).stop()
    assert ended.state is RunState.STOPPED
    assert [step.name for step in ended.run.facts.stop_steps] == signals
    assert processes.tagged(ended.run.id) == []


def test_pause_and_save_of_a_script_are_refused_with_a_notice(tmp_path: Path, runs_root: Path, capsys) -> None:
    followed = start(script_spec(ODD / "saves_on_interrupt.py", cwd=tmp_path), runs_root).until_trained()

    followed.run.request("pause")
    wait_until(lambda: followed.poll().run.facts.notices, "an answer")
    assert followed.run.facts.notices == ("Trainyard cannot pause a script. Stopping it sends SIGINT first.",)
    assert not (followed.run.dir / "control" / "pause").exists()

    for command in ("pause", "save"):
        assert main([command, followed.run.id, "--runs", str(runs_root)]) == 2
        err = capsys.readouterr().err
        why = f"Trainyard cannot {command} a script. Stopping it sends SIGINT first."
        assert err == f"trainyard: Run {followed.run.id} goes on. {why}\n"

    followed.stop()
    with pytest.raises(ValueError, match=r"cannot resume\. Start it again: trainyard again"):
        Run.resume(followed.run.dir)


def collectors(run_dir: Path) -> list[int]:
    """Return the pids of the collector processes of this run."""
    log = str(run_dir / EVENTS / "collector.jsonl")
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if log in {str(each.readlink()) for each in folder.iterdir()}:
                found.append(int(folder.parent.name))
    return found


def test_killed_collector_is_reported_and_the_script_continues(tmp_path: Path, runs_root: Path) -> None:
    followed = start(script_spec(ODD / "saves_on_interrupt.py", cwd=tmp_path), runs_root).until_trained()

    # The supervisor reads the file now and then, while the collector has it open all the time.
    (reader,) = wait_until(lambda: len(found := collectors(followed.run.dir)) == 1 and found, "the collector alone")
    os.kill(reader, signal.SIGKILL)
    wait_until(lambda: followed.poll().run.facts.notices, "a notice")
    assert "the curves are no longer updated. The script continues" in followed.run.facts.notices[0]

    assert followed.stop().state is RunState.STOPPED


# -- a full disk -----------------------------------------------------------------------------------


FLOOD = """\
import os, time
for step in range(1, 6001):
    try:
        print(f"step {step} loss {1 / step:.4f} " + "x" * 250, flush=True)
    except OSError:
        if not SWALLOWS:
            raise
    while step == 500 and not os.path.exists("read"):
        time.sleep(0.01)  # until some of it has been recorded
"""


@pytest.mark.parametrize("swallows", [False, True])
def test_script_that_fills_the_disk_is_told_which_and_what_is_missing(small_disk, tmp_path, swallows) -> None:
    source = FLOOD.replace("SWALLOWS", str(swallows))
    followed = start(source_spec(tmp_path, source), small_disk / "runs")
    wait_until(lambda: "loss" in followed.poll().run_series.metrics, "the first losses")
    (tmp_path / "read").touch()
    followed.until_over()
    facts = followed.run.facts
    words = " ".join([*facts.notices, facts.error or ""])
    disk = rf"The disk at {re.escape(str(small_disk))} \(tmpfs\) was full at \d\d:\d\d:\d\d\."
    missing = " Output that the script printed from then on may be missing from the log, and its measurements"
    assert re.search(disk + missing, words), words
    assert "log is complete" not in words
    assert facts.state is (RunState.FINISHED if swallows else RunState.FAILED)
    if not swallows:
        assert re.search(disk + " That may be why.", str(facts.error)), facts.error
    losses = followed.losses()
    assert losses == [round(1 / step, 4) for step in range(1, len(losses) + 1)]  # what there is, is right


# -- imports ---------------------------------------------------------------------------------------


NAMES = ("platformdirs", "psutil", "core", "gui", "resources", "runpy", "argparse")
PLANTED = """\
import os, sys
with open(os.environ["MARK"], "a") as file:
    file.write(f"{__name__} in {sys.argv[0]}\\n")
"""
COMMAND = f"import sys; sys.path.insert(1, {str(ROOT)!r}); from trainyard import main; sys.exit(main())"
"""What the installed command does, with the working folder on the path in addition."""
SCRIPT = "import platformdirs, core\nprint('step 1 loss 0.5')\n"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules that record their import."""
    folder = tmp_path / "planted"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED)
    return folder


@pytest.mark.parametrize("path", ["{planted}", ":/nowhere"], ids=["on PYTHONPATH", "in the working folder"])
def test_user_modules_are_imported_by_the_script_alone(tmp_path: Path, planted: Path, path: str) -> None:
    """Start a command as from a shell, and with it a supervisor, a guard, and a process that collects metrics."""
    (tmp_path / "train.py").write_text(SCRIPT)
    variable, mark = path.format(planted=planted), tmp_path / "mark"
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", "--script", tmp_path / "train.py", "--devices", "cpu:0",
         "--runs", tmp_path / "runs"],
        cwd=planted, env={**os.environ, "PYTHONPATH": variable, "MARK": str(mark)}, capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    script = tmp_path / "train.py"
    assert mark.read_text() == f"platformdirs in {script}\ncore in {script}\n"


def test_own_module_is_started_with_what_it_needs_from_pythonpath(tmp_path: Path) -> None:
    """A package that Trainyard needs may be installed in a folder of PYTHONPATH only."""
    (tmp_path / "only_here.py").write_text("print('found')")
    done = subprocess.run(
        own_command("only_here"), env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd="/", capture_output=True,
        text=True, check=True,
    )
    assert done.stdout == "found\n"
