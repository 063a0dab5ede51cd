"""Pause, save and resume of real runs: their state transitions in order, and the commands."""

import json
import os
import signal
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from core.cli import options, run_options
from core.history.index import RunIndex
from core.runs.directory import launch_supervisor
from core.runs.facts import RunState
from core.runs.outputs import listed_checkpoints, whole
from core.runs.run import Run
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.schema.settings import StopTimeouts
from core.schema.spec import read_spec, write_spec
from core.system import processes
from tests.support.acting import played
from tests.support.commands import Call
from tests.support.running import CAME_UP, FOREVER, LONG, Followed, at_step, make_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

PAUSED = [*CAME_UP, RunState.RELEASING, RunState.PAUSED]
FINISHED = [*CAME_UP, RunState.RELEASING, RunState.FINISHED]
STOPPED = [RunState.STOPPING, RunState.RELEASING, RunState.STOPPED]

SLOW = f"""{LONG}
import os, time
from pathlib import Path

quick, requests = Path(__file__).with_name("quick"), Path(os.environ["TRAINYARD_RUN_DIR"], "control")

class Slow:
    given = 0

    def __len__(self):
        return 120
    def __getitem__(self, index):
        self.given += 1
        while not quick.exists():
            time.sleep(0.01)
            if self.given <= 120 or any(requests.iterdir()):
                break
        return index / 120

def train_data():
    return Slow()
"""
"""Thirty steps of 40 ms per epoch at a batch size of 4. The second epoch waits for a request, or for `let_run`."""


@pytest.fixture
def slow(tmp_path: Path) -> str:
    return write_recipe(tmp_path, SLOW, "slow")


def let_run(recipe: str) -> None:
    """Let a slow recipe train to its end."""
    Path(recipe).with_name("quick").touch()


def resumed(run_dir: Path) -> Followed:
    return Followed(Run.resume(run_dir))


def gone(run: Run) -> bool:
    return not processes.tagged(run.id)


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cpu:1"])
def test_paused_run_resumes_with_every_step_recorded_once(runs_root: Path, slow: str, devices: str) -> None:
    spec = make_spec(slow, epochs=4, batch_size=4, devices=devices)
    followed = start(spec, runs_root).until_trained(5)
    second, index = Followed(Run.attach(followed.run.dir)), RunIndex(runs_root)
    assert followed.pause().states == PAUSED
    assert second.until_over().states == PAUSED
    assert gone(followed.run)
    assert [each.state for each in index.poll()] == [RunState.PAUSED]
    at = followed.run.facts.checkpoint
    assert (at.step, at.reason) == (followed.run.facts.step, "pause")
    assert whole(followed.run.dir).name == at.name

    again = resumed(followed.run.dir)
    wait_until(lambda: second.poll().state in CAME_UP, "the second reader to see the run go on")
    wait_until(lambda: index.poll()[0].state in CAME_UP, "the list of runs to see it, too")
    let_run(slow)
    again.until_over()
    assert again.states == [*PAUSED, *FINISHED]
    assert followed.until(RunState.FINISHED).states == again.states
    assert second.until(RunState.FINISHED).states == again.states
    for reader in (again, followed, second):
        assert reader.run_series.metrics["loss"].steps.tolist() == list(range(1, 121))
    assert {worker.exit_code for worker in again.run.facts.workers.values()} == {0}
    assert 1 <= len(listed_checkpoints(again.run.dir)) <= 3
    assert gone(again.run)


@pytest.mark.slow
def test_run_with_a_killed_supervisor_can_be_resumed_at_once(runs_root: Path, endless: str) -> None:
    """The guard of the first leg, which kills all processes of the run, must spare those of the second leg."""
    spec = make_spec(endless, epochs=FOREVER, devices="cpu:0,cpu:1", checkpoints={"unit": "steps", "every": 50})
    followed = start(spec, runs_root).until_trained(200)
    wait_until(lambda: followed.poll().run.facts.checkpoint, "a checkpoint")
    os.kill(followed.run.facts.supervisor.pid, signal.SIGKILL)
    assert followed.until_over().state is RunState.LOST
    again = resumed(followed.run.dir)
    assert again.until_trained(followed.run.facts.step + 200).states[-3:] == [RunState.LOST, *CAME_UP]
    assert again.stop().states == [*CAME_UP, RunState.LOST, *CAME_UP, *STOPPED]
    assert again.run_series.metrics["loss"].steps.tolist() == list(range(1, again.run.facts.step + 1))
    assert again.run.facts.error is None


def test_failed_run_can_be_resumed_after_its_cause_is_fixed(runs_root: Path, tmp_path: Path) -> None:
    """The run fails right after a checkpoint: all metrics up to that checkpoint are recorded."""
    flag = tmp_path / "broken"
    flag.touch()
    raises = f"""import pathlib
if pathlib.Path({str(flag)!r}).exists():
    raise RuntimeError("the coffee machine is out of beans")"""
    failing = write_recipe(tmp_path, at_step(19, raises), "failing")
    often = {"unit": "steps", "every": 18}
    spec = make_spec(failing, epochs=2, batch_size=4, checkpoints=often, settings={"items": 120})
    followed = train(spec, runs_root)
    assert "out of beans" in followed.failure
    flag.unlink()
    again = resumed(followed.run.dir).until_over()
    assert again.states == [*CAME_UP, RunState.RELEASING, RunState.FAILED, *FINISHED]
    assert again.run.facts.error is None
    assert again.run.facts.traceback is None
    assert again.run_series.metrics["loss"].steps.tolist() == list(range(1, 61))
    start = ["framework", "recipe", "model", "data"]  # the fake worker makes the model first
    events = Tail(again.run.dir / EVENTS / "worker-0.jsonl").read()
    phases = [event["name"] for event in events if event["kind"] == "phase"]
    assert phases == [*start, "step", *start, "checkpoint", "step"]


@pytest.mark.slow
def test_running_or_finished_run_cannot_be_resumed(training: Followed, runs_root: Path, tmp_path: Path) -> None:
    finished = train(played(tmp_path / "short", steps=3), runs_root)
    for followed, words in ((training, "is running already"), (finished, "is finished: there is nothing to resume")):
        with pytest.raises(ValueError, match=words):
            Run.resume(followed.run.dir)
        other = launch_supervisor(followed.run.dir, "--resume")
        wait_until(lambda other=other: other is None or not processes.is_alive(other), "the other supervisor to end")
        assert words in followed.run.log_end()
    assert training.poll().state is RunState.RUNNING
    training.stop()
    assert Followed(Run.attach(finished.run.dir)).until_over().states == FINISHED


def test_pause_while_workers_load_takes_effect_when_training_begins(runs_root: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    loads = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n"
    recipe = write_recipe(tmp_path, loads + LONG, "loads")
    followed = start(make_spec(recipe, epochs=FOREVER), runs_root).until(RunState.STARTING)
    wait_until(lambda: followed.poll().run.facts.workers, "the worker")
    followed.run.request("pause")
    wait_until(lambda: followed.poll().run.facts.asked == "pause", "the request to be known")
    go.touch()
    followed.until_over()
    assert followed.states == PAUSED
    assert followed.run.facts.asked == ""


def test_stop_takes_precedence_over_pause(training: Followed) -> None:
    training.run.request("stop")
    assert training.pause().state is RunState.STOPPED
    again = resumed(training.run.dir).until_trained(1)  # the old requests do not count
    assert again.pause().states[-4:] == PAUSED


def test_truncated_lines_and_leftover_files_do_not_prevent_resume(runs_root: Path, slow: str) -> None:
    spec = make_spec(slow, epochs=3, batch_size=4, stop_timeouts=StopTimeouts(ask_s=PATIENCE_S))
    followed = start(spec, runs_root).until_trained(3)
    followed.pause()
    events = followed.run.dir / "events"
    for name in ("worker-0.jsonl", "supervisor.jsonl", "devices.jsonl"):
        with (events / name).open("ab") as file:
            file.write(b'{"t": 1e9, "kind": "metr')
    (followed.run.dir / "rendezvous").write_bytes(b"stale")
    for name in ("stop", "force", "pause", "save"):
        (followed.run.dir / "control" / name).touch()
    let_run(slow)
    again = resumed(followed.run.dir).until_over()
    assert again.states == [*PAUSED, *FINISHED]
    assert again.run.facts.notices == ()
    assert again.run_series.metrics["loss"].steps.tolist() == list(range(1, 91))


def test_run_that_never_started_can_be_resumed(runs_root: Path, tmp_path: Path) -> None:
    followed = train(played(tmp_path / "actor", steps=3), runs_root).until_left()
    for file in (followed.run.dir / "events").iterdir():
        file.unlink()
    long_ago = (followed.run.dir / "spec.json").stat().st_mtime - 60
    os.utime(followed.run.dir / "spec.json", (long_ago, long_ago))
    reader = Followed(Run.attach(followed.run.dir)).until_over()
    assert reader.state is RunState.LOST
    assert str(reader.run.facts.error).startswith("The run never started")
    again = resumed(followed.run.dir).until_over()
    assert again.state is RunState.FINISHED
    assert again.run.facts.error is None
    assert reader.until(RunState.FINISHED).run.facts.error is None


# -- commands ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands_save_pause_and_resume_a_run(call: Call, runs_root: Path, tmp_path: Path) -> None:
    spec = make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER, checkpoints={"unit": "never"})
    followed = start(spec, runs_root).until_trained(1)
    name = followed.run.id
    code, out, _ = call("save", name)
    assert code == 0
    assert Path(out.strip(), "checkpoint.json").is_file()
    saved = json.loads(call("save", name, "--json")[1])
    assert Path(saved["path"]).name == saved["checkpoint"]
    assert Path(out.strip()).name != saved["checkpoint"]
    wait_until(lambda: not (followed.run.dir / "control" / "save").exists(), "the request to be taken back")
    wait_until(lambda: followed.poll().run.facts.asked == "", "the supervisor to know that it is done")
    assert followed.run.facts.checkpoint.reason == "asked"

    assert call("pause", name)[:2] == (0, f"{name}: paused\n")
    shown = json.loads(call("show", name, "--json")[1])
    assert shown["state"] == "paused"
    assert shown["checkpoints"][0]["reason"] == "pause"
    assert shown["checkpoints"][0]["step"] == shown["steps"]
    assert all(Path(each["path"]).is_dir() and each["bytes"] > 0 for each in shown["checkpoints"])
    assert f"checkpoint {shown['checkpoints'][0]['name']}: step {shown['steps']}" in call("show", name)[1]
    code, out, _ = call("attach", name)
    assert (code, out.startswith(f"{name}: paused, loss ")) == (3, True)
    for command in ("pause", "save", "stop"):
        code, _, err = call(command, name)
        assert (code, f"Run {name} is over already: paused." in err) == (2, True)

    assert call("resume", name, "--detach")[:2] == (0, f"{name}\n")
    again = Followed(Run.attach(followed.run.dir)).until_trained(shown["steps"] + 1)
    code, _, err = call("resume", name)
    assert code == 2
    assert "is running already" in err
    again.pause()
    assert again.state is RunState.PAUSED


def test_run_that_cannot_be_saved_reports_an_error_and_continues(call: Call, runs_root: Path, tmp_path: Path) -> None:
    spec = make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER, checkpoints={"unit": "never"})
    followed = start(spec, runs_root).until_trained(1)
    folder = followed.run.dir / "checkpoints"
    folder.rmdir()
    folder.write_text("a file where a folder should be")
    for command, words in (("pause", "could not be paused and continues."), ("save", "could not be saved.")):
        code, out, err = call(command, followed.run.id)
        assert (code, out) == (2, "")
        assert f"Run {followed.run.id} {words} The checkpoint at step" in err
        assert err.count("\n") == 1
    followed.until_trained(followed.run.facts.step + 1)
    folder.unlink()
    assert call("pause", followed.run.id)[0] == 0
    assert followed.until_over().state is RunState.PAUSED


def test_save_reports_a_run_that_ends_before_it_is_saved(call: Call, runs_root: Path, tmp_path: Path) -> None:
    slow = write_recipe(tmp_path, f"import time\ntime.sleep(600)\n{LONG}", "slow")
    followed = start(make_spec(slow), runs_root)
    wait_until(lambda: followed.poll().run.facts.workers, "the worker")
    os.kill(followed.run.facts.workers[0].process.pid, signal.SIGKILL)
    code, _, err = call("save", followed.run.id)
    assert code == 2
    assert "over" in err
    followed.until_over()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("epoch", {"unit": "epochs", "every": 1}),
        ("5 epochs", {"unit": "epochs", "every": 5}),
        ("100 steps", {"unit": "steps", "every": 100}),
        ("10minutes", {"unit": "minutes", "every": 10}),
        ("auto", {"unit": "auto"}),
        ("Never", {"unit": "never"}),
    ],
)
def test_checkpoint_every_option_is_parsed(text: str, meant: dict[str, object]) -> None:
    parser = options.Parser()
    options.add_run_options(parser)
    words = ["digits_mlp", "--checkpoint-every", text, "--keep-checkpoints", "3"]
    given = parser.parse_args(words, Namespace(arguments=[]))
    assert run_options.choices(given).checkpoints == {**meant, "keep": 3}


def test_devices_that_were_changed_before_a_resume_are_recorded(slow: str, runs_root: Path) -> None:
    """The queue stores other devices before it starts a run again."""
    followed = start(make_spec(slow, batch_size=4, epochs=FOREVER), runs_root).until_trained()
    followed.pause()
    run_dir = followed.run.dir
    write_spec(run_dir, replace(read_spec(run_dir), devices=("cpu:1",)))
    again = resumed(run_dir).until(RunState.RUNNING)
    assert list(again.run.facts.devices) == ["cpu:1"]
    assert again.run.facts.notices == ("The run was resumed on CPU 1 (single). Before, it trained on CPU 0 (single).",)
    again.pause()
    assert resumed(run_dir).until(RunState.RUNNING).stop().run.facts.notices == (), "it was not moved again"


def test_command_resumes_on_other_devices_and_refuses_what_is_not_there(call: Call, slow: str, runs_root: Path) -> None:
    followed = start(make_spec(slow, batch_size=4, epochs=FOREVER), runs_root).until_trained()
    name = followed.run.id
    assert "is running already" in call("resume", name, "--devices", "cpu:1")[2]
    followed.pause()
    code, _, err = call("resume", name, "--devices", "cpu:7")
    assert (code, "There is no device 'cpu:7' here." in err) == (2, True)
    assert "Choose one device, or strategy ddp" in call("resume", name, "--devices", "cpu:0,cpu:1")[2]
    code, _, err = call("resume", name, "--devices", "cpu:1,cpu:0", "--strategy", "ddp", "--detach")
    assert code == 0
    assert "such as dropout" in err
    assert read_spec(followed.run.dir).devices == ("cpu:1", "cpu:0")
    Followed(Run.attach(followed.run.dir)).until(RunState.RUNNING).stop()
