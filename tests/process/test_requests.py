"""Commands `pause`, `resume` and `save`, and the settings of `run`."""

from __future__ import annotations

import json
import os
import signal
from argparse import Namespace
from pathlib import Path

import pytest

from core.cli import options, run_options
from core.runs.facts import RunState
from core.runs.run import Run
from tests.support.commands import Call
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, write_recipe
from tests.support.waiting import wait_until


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


def test_resume_follows_the_run_to_its_end(call: Call, training: Followed) -> None:
    training.stop()
    spec_file = training.run.dir / "spec.json"
    spec = json.loads(spec_file.read_text())
    spec["training"]["epochs"] = 1
    spec_file.write_text(json.dumps(spec))
    code, out, err = call("resume", training.run.id, "--json")
    assert (code, err, json.loads(out)["state"]) == (0, "", "finished")
    code, _, err = call("resume", training.run.id)
    assert code == 2
    assert "is finished: there is nothing to resume. Start it again: trainyard again" in err


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
