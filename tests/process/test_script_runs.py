"""User scripts run unchanged: how they are started, how they end, and that no processes are left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

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
from tests.support.patient_supervisor import INTERRUPTS_AGAIN_SOON, start_patiently
from tests.support.running import CAME_UP, Followed, script_spec, start, train
from tests.support.waiting import PATIENCE_S, wait_until

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
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


def report_of(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_script_runs_exactly_as_from_a_shell(tmp_path: Path, runs_root: Path, tells: Path) -> None:
    here, arguments = tmp_path / "here", ["--lr", "0.1", "a b", "--", "-x"]
    here.mkdir()
    environment = {"TOLD": str(tmp_path / "panel.json"), "MINE": "a=b c"}
    spec = script_spec(tells, *arguments, cwd=here, environment=environment)

    assert train(spec, runs_root).state is RunState.FINISHED

    subprocess.run(
        [sys.executable, str(tells), *arguments], cwd=here, check=True,
        env={**os.environ, **environment, "TOLD": str(tmp_path / "shell.json")},
    )
    panel, shell = report_of(tmp_path / "panel.json"), report_of(tmp_path / "shell.json")
    for name in ("argv", "name", "path", "cwd", "file", "modules", "umask"):
        assert panel[name] == shell[name], name
    assert panel["ignored"] == ["SIGPIPE", "SIGXFSZ"], "as Python itself does; whoever runs the tests may ignore more"
    mine = panel["environment"]
    assert isinstance(mine, dict)
    assert mine["MINE"] == "a=b c"
    assert mine["PWD"] == str(here)
    assert not [name for name in mine if name.startswith("PYTHONPATH")]


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
    assert found["path"][0] == str(tmp_path / "mine")  # type: ignore[index]


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
        assert isinstance(environment, dict)
        wanted = {
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0,
            "ROLE_RANK": rank, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": len(cores[f"cpu:{rank}"]),
            "CUDA_VISIBLE_DEVICES": "",
        }
        assert {name: environment[name] for name in wanted} == {name: str(value) for name, value in wanted.items()}
        assert found["cores"] == cores[f"cpu:{rank}"]
    ports = {found["environment"]["MASTER_PORT"] for found in ranks}  # type: ignore[index]
    assert len(ports) == 1
    assert 1024 <= int(ports.pop()) < 65536


def test_workers_of_tensorflow_find_each_other_by_tf_config(tmp_path: Path, runs_root: Path) -> None:
    strategy = "if False:\n    import tensorflow as tf\n    tf.distribute.MultiWorkerMirroredStrategy()\n"
    (tmp_path / "tells.py").write_text(TELLS + strategy)
    spec = script_spec(
        tmp_path / "tells.py", cwd=tmp_path, devices="cpu:0,cpu:1", launch="per-device",
        environment={"TOLD": str(tmp_path / "told")},
    )

    assert train(spec, runs_root).state is RunState.FINISHED

    told = [report_of(tmp_path / f"told{rank}")["environment"] for rank in range(2)]
    found = [json.loads(environment["TF_CONFIG"]) for environment in told]  # type: ignore[index]
    assert [each["task"] for each in found] == [{"type": "worker", "index": rank} for rank in range(2)]
    workers = found[0]["cluster"]["worker"]
    assert found[1]["cluster"]["worker"] == workers
    assert len(set(workers)) == 2
    assert all(each.startswith("127.0.0.1:") for each in workers)


def test_output_is_logged_byte_for_byte(tmp_path: Path, runs_root: Path) -> None:
    script = ODD / "rubbish.py"
    source = script.read_text().replace("os.urandom(200_000)", "bytes(range(256)) * 800")
    (tmp_path / "rubbish.py").write_text(source)

    ended = train(script_spec(tmp_path / "rubbish.py", cwd=tmp_path), runs_root)

    by_shell = subprocess.run([sys.executable, tmp_path / "rubbish.py"], capture_output=True, check=True).stdout
    assert (ended.run.dir / "log.txt").read_bytes() == by_shell
    assert ended.losses() == [0.5, 0.25, 0.125]
    assert ended.run.facts.step == 3


def test_script_exception_fails_the_run_with_its_error(tmp_path: Path, runs_root: Path) -> None:
    (tmp_path / "broken.py").write_text("def fit():\n    raise KeyError('no such column')\n\nfit()\n")

    ended = train(script_spec(tmp_path / "broken.py", cwd=tmp_path), runs_root)

    assert ended.states == [*CAME_UP, RunState.RELEASING, RunState.FAILED]
    assert ended.run.facts.error == "broken.py ended with exit code 1: KeyError: 'no such column'."
    assert ended.run.facts.traceback is not None
    assert "in fit" in ended.run.facts.traceback
    assert failure_words(ended.run) == "It was raised in broken.py, line 2, in fit()."


def test_argparse_error_of_the_script_is_quoted(tmp_path: Path, runs_root: Path) -> None:
    (tmp_path / "picky.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--arch', required=True)\nparser.parse_args()\n"
    )

    ended = train(script_spec(tmp_path / "picky.py", cwd=tmp_path), runs_root)

    assert ended.run.facts.error == (
        "picky.py ended with exit code 2. Its last line of output: "
        "picky.py: error: the following arguments are required: --arch."
    )


def test_last_traceback_is_read_as_shown_on_a_terminal() -> None:
    trace = f"{TRACEBACK}\n  File 'x', line 1\nValueError: bad sample\n"
    ranked = "".join(f"[rank1]: {line}\n" for line in trace.splitlines())
    assert last_traceback(as_printed(f"step 1\n\x1b[31m{ranked}\x1b[0m")) == trace
    assert as_printed("10 %\r20 %\r30 %\r\ngone\n") == "30 %\ngone\n"


def test_failed_rank_is_named_although_rank_0_succeeds(tmp_path: Path, runs_root: Path) -> None:
    spec = script_spec(ODD / "failing_rank.py", cwd=tmp_path, devices="cpu:0,cpu:1", launch="per-device")

    ended = train(spec, runs_root)

    assert ended.state is RunState.FAILED
    assert ended.run.facts.error == (
        "failing_rank.py (Worker 1 on cpu:1) ended with exit code 1: RuntimeError: the data of this rank are missing."
    )
    assert "missing" not in (ended.run.dir / "log.txt").read_text()
    assert "missing" in (ended.run.dir / "log.1.txt").read_text()
    assert log_of(ended.run) == (
        f"The traceback and all output of the run are in {ended.run.dir / 'log.txt'}, {ended.run.dir / 'log.1.txt'}."
    )


def test_script_reading_stdin_fails_with_eof(tmp_path: Path, runs_root: Path) -> None:
    ended = train(script_spec(ODD / "reads_stdin.py", cwd=tmp_path), runs_root)

    assert ended.state is RunState.FAILED
    assert "EOFError" in str(ended.run.facts.error)


@pytest.mark.parametrize("name", ["forks", "daemonises"])
def test_leftover_processes_are_terminated_and_reported(tmp_path: Path, runs_root: Path, name: str) -> None:
    ended = train(script_spec(ODD / f"{name}.py", cwd=tmp_path), runs_root)

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


def test_script_that_ignores_sigint_gets_stronger_signals(tmp_path: Path, runs_root: Path) -> None:
    (tmp_path / "deaf.py").write_text(
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('step 1 loss 1.0', flush=True)\ntime.sleep(3600)\n"
    )
    spec = script_spec(tmp_path / "deaf.py", cwd=tmp_path)
    spec = replace(spec, stop_timeouts=StopTimeouts(interrupt_s=0.2, terminate_s=0.2))
    followed = until_read(start(spec, runs_root))

    ended = followed.stop()

    assert ended.state is RunState.STOPPED
    assert [step.name for step in ended.run.facts.stop_steps] == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert processes.tagged(ended.run.id) == []


def test_script_that_trains_on_after_sigint_gets_a_second_one(tmp_path: Path, runs_root: Path) -> None:
    """As Keras does: an interrupt within one of its callbacks is lost.

    Only the steps after that show that it trains on, so the second one does not come before.
    """
    (tmp_path / "loses.py").write_text(
        "import signal, time\nlost = False\ndef lose(*_):\n    global lost\n    lost = True\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGINT, lose)\nstep = 0\nwhile True:\n    if lost or not step:\n"
        "        step += 1\n        print(f'step {step} loss: {1 / step}', flush=True)\n    time.sleep(0.05)\n"
    )
    spec = replace(script_spec(tmp_path / "loses.py", cwd=tmp_path), stop_timeouts=StopTimeouts(interrupt_s=PATIENCE_S))
    followed = until_read(start_patiently(spec, runs_root, INTERRUPTS_AGAIN_SOON))

    ended = followed.stop()

    assert ended.state is RunState.STOPPED
    assert [step.name for step in ended.run.facts.stop_steps] == ["SIGINT", "SIGINT"]


def test_pause_and_save_of_a_script_are_refused_with_a_notice(
    tmp_path: Path, runs_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_no_process_outlives_a_killed_supervisor(tmp_path: Path, runs_root: Path) -> None:
    followed = start(script_spec(ODD / "saves_on_interrupt.py", cwd=tmp_path), runs_root).until_trained()
    supervisor = followed.run.facts.supervisor
    assert supervisor is not None

    os.kill(supervisor.pid, signal.SIGKILL)

    assert followed.until_over().state is RunState.LOST
    wait_until(lambda: not processes.tagged(followed.run.id), "the end of its processes")
    wait_until(lambda: not collectors(followed.run.dir), "the end of the metrics process")


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


def test_shell_command_starts_the_script_identically(tmp_path: Path, runs_root: Path, tells: Path) -> None:
    spec = script_spec(tells, "a b", cwd=tmp_path, environment={"TOLD": str(tmp_path / "told.json"), "MINE": "x y"})
    ended = train(spec, runs_root)
    by_panel = report_of(tmp_path / "told.json")
    (tmp_path / "told.json").unlink()

    line = shell_line(spec, {device.id: device.cores for device in cpu_devices()})
    subprocess.run(["/bin/sh", "-c", line], check=True)

    by_shell = report_of(tmp_path / "told.json")
    for name in ("argv", "cwd", "cores", "path"):
        assert by_shell[name] == by_panel[name], name
    before, after = by_panel["environment"], by_shell["environment"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MINE"):
        assert after[name] == before[name], name
    assert "TRAINYARD_METRICS" not in after
    assert ended.state is RunState.FINISHED
