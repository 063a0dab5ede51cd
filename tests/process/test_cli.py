"""The command line: exit codes, one JSON document, one sentence per error."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import tomllib

import trainyard
from core.runs.directory import new_directory
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.spec import write_spec
from tests.support.acting import played
from tests.support.commands import Call, in_a_process
from tests.support.recorded import recorded
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

RUN = "run digits_mlp --devices cpu:0"
VERSION = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    {
        "run no_such --devices cpu:0": "There is no recipe 'no_such'. Built in for pytorch: ",
        "run /no/such.py --devices cpu:0": "There is no recipe file /no/such.py. Check the path.",
        f"{RUN} --framework caffe": "There is no framework 'caffe' here. Choose one of: pytorch, tensorflow, keras.",
        f"{RUN} --strategy magic": "PyTorch has no strategy 'magic' here. Choose one of: single, ddp, ",
        "run digits_mlp --devices cpu:9": "There is no device 'cpu:9' here. Choose from: cpu:0, cpu:1.",
        "run digits_mlp --devices cpu:0,cpu:0": "A device is named twice in cpu:0, cpu:0. Name each once.",
        "run digits_mlp": "No device is chosen. Choose at least one of: cpu:0, cpu:1.",
        "run digits_mlp --devices cpu:0,cpu:1 --strategy single": "Choose one device, or strategy ddp",
        f"{RUN} --set depth=3":
            "Recipe digits_mlp has no setting 'depth'. Its settings are: hidden, dropout, momentum.",
        f"{RUN} --set hidden=many": "Setting 'hidden' is 'many'. Give a whole number, such as 64.",
        f"{RUN} --set hidden": "--set 'hidden' is not of the form NAME=VALUE.",
        "run digits_mlp --devices cpu:0,cpu:1 --batch-size 33": "A batch of 33 cannot be split evenly over 2",
        f"{RUN} --batch-size 0": "--batch-size is 0. Give a whole number of at least 1.",
        f"{RUN} --epochs -1": "--epochs is -1. Give a whole number of at least 1.",
        f"{RUN} --epochs ten": "--epochs is 'ten'. Give a whole number. See trainyard run --help.",
        f"{RUN} --learning-rate nan": "--learning-rate is nan. Give a number greater than 0.",
        f"{RUN} --precision float8": "--precision is 'float8'. Choose one of: float32, bfloat16, float16.",
        f"{RUN} --schedule zigzag": "--schedule is 'zigzag'. Choose one of: constant, cosine.",
        f"{RUN} --gradient-clip -1": "--gradient-clip is -1.0. Give a number greater than 0.",
        f"{RUN} --checkpoint-every sometimes": "--checkpoint-every 'sometimes' is not understood. Give epoch, '5",
        f"{RUN} --checkpoint-every 0steps": "The setting “Checkpoint interval” is 0. Give a whole number of at least",
        f"{RUN} --epoch 1":
            "--epoch 1 are not arguments of trainyard run. Did you mean --epochs? See trainyard run --help.",
        f"{RUN} --xyz 1": "--xyz 1 are not arguments of trainyard run. Arguments for your own script come after",
        "sweep --epochs": "--epochs is not an argument of trainyard sweep. See trainyard sweep --help.",
        f"{RUN} --name a/b": "--name 'a/b' has a slash. A run's folder gets this name: use - or _ instead.",
        "remove --older-than x": "--older-than is 'x'. Give a number. See trainyard remove --help.",
        "run mobilenet_cats_dogs": "is built in for tensorflow and keras, not for pytorch. Add --framework ",
        "export x": "Say what to export: --csv FILE, --html FILE, --svg FOLDER, --png FOLDER, --tensorboard FOLDER or",
        "show no-such-run": "There is no run 'no-such-run' in",
        "fly": "There is no command 'fly'. See trainyard --help.",
    }.items(),
)
def test_usage_error_prints_one_sentence_and_starts_nothing(call, runs_root: Path, arguments: str, words: str) -> None:
    code, out, err = call(*arguments.split())
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("trainyard: ")
    assert err.count("\n") == 1
    assert not runs_root.exists()


@pytest.mark.parametrize(
    ("source", "words"),
    {
        "def model(:\n": "is not valid Python: invalid syntax, line 1. Correct it there.",
        "def model():\n    pass\n": "If it is a program that trains by itself, run it as it is: trainyard run --script",
        # Python 3.11.2 raises `ValueError`, 3.11.7 `SyntaxError`.
        "\0": "source code string cannot contain null bytes",
        "def model(a=1): pass\ndef train_data(a=2): pass\n":
            "gives its setting 'a' two defaults, 1 and 2 (in train_data(), line 2)",
    }.items(),
)
def test_invalid_recipe_file_is_refused(call: Call, tmp_path: Path, source: str, words: str) -> None:
    code, _, err = call("run", write_recipe(tmp_path, source), "--devices", "cpu:0")
    assert code == 2
    assert words in err
    assert str(tmp_path / "recipe.py") in err
    assert err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_recipe_is_refused(call: Call, tmp_path: Path) -> None:
    recipe = Path(write_recipe(tmp_path, LONG))
    recipe.chmod(0)
    code, _, err = call("run", str(recipe), "--devices", "cpu:0")
    assert code == 2
    assert "could not be read: Permission denied" in err


def test_missing_torch_is_reported_before_start(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINYARD_PYTHON_PYTORCH")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = call(*RUN.split())
    assert code == 2
    assert f"PyTorch is not installed in {sys.executable}. Install it there: {sys.executable} -m pip install" in err


def test_unwritable_runs_folder_is_reported(call: Call, runs_root: Path) -> None:
    runs_root.write_text("a file where a folder should be")
    code, _, err = call(*RUN.split())
    assert code == 2
    assert f"{runs_root} cannot be a folder of runs" in err
    assert "Keep runs elsewhere with --runs DIR" in err


def test_ctrl_c_during_import_prints_one_sentence(monkeypatch, capsys) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("core.system.own_start.search_own_first", interrupted)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert trainyard.main() == 130
    assert capsys.readouterr() == ("", "trainyard: Interrupted. Nothing was done.\n")


def test_json_option_prints_one_json_document(call: Call) -> None:
    for command in ("devices", "catalog", "recipes", "runs"):
        code, out, _ = call(command, "--json")
        assert code == 0
        assert isinstance(json.loads(out), list)
    rows = json.loads(call("devices", "--json")[1])
    assert [row["id"] for row in rows] == ["cpu:0", "cpu:1"]
    rows = json.loads(call("catalog", "--json")[1])
    assert [(row["framework"], row["strategy"]) for row in rows][:2] == [("pytorch", "single"), ("pytorch", "ddp")]
    tpu = next(row for row in rows if row["strategy"] == "tpu")
    assert tpu["unavailable"].startswith("No TPU was found here")
    assert f"tensorflow tpu: {tpu['unavailable']}" in call("catalog")[1].splitlines()
    assert rows[0]["devices"] == {"least": 1, "most": 1, "kinds": ["cpu", "nvidia"]}
    digits = next(each for each in json.loads(call("recipes", "--json")[1]) if each["name"] == "digits_cnn")
    assert digits["settings"] == {"width": 16, "dropout": 0.0, "momentum": 0.9}


def test_version_is_that_of_the_distribution_or_the_source(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = call("--version")
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("trainyard")
    assert installed == call("--version") == (0, f"trainyard {VERSION}\n", "")


def test_damaged_or_newer_run_is_named_and_left_to_its_user(call: Call, runs_root: Path) -> None:
    run_dir = recorded(runs_root)
    spec = json.loads((run_dir / "spec.json").read_text())
    (run_dir / "spec.json").write_text(json.dumps({**spec, "version": 99}))
    code, _, err = call("show", run_dir.name)
    assert code == 2
    assert "written by a newer Trainyard (version 99; this one reads up to 1). Update Trainyard" in err
    assert json.loads(call("runs", "--json")[1])[0]["state"] == "finished"
    (run_dir / "spec.json").write_text("")
    code, _, err = call("show", run_dir.name)
    assert (code, err) == (2, f"trainyard: {run_dir}/spec.json is not a valid spec. It is damaged: it is not JSON.\n")
    code, _, err = call("remove", run_dir.name, "--yes")
    assert code == 2
    assert "its spec.json is damaged. Delete the folder yourself if you no longer need it." in err
    assert run_dir.is_dir()


def test_run_show_and_list_agree(call: Call, runs_root: Path) -> None:
    code, out, _ = call(*RUN.split(), "--epochs", "1", "--json", "--name", "my run", "--set", "hidden=8")
    shown = json.loads(out)
    assert code == 0
    assert shown["state"] == "finished"
    assert shown["spec"]["name"] == "my run"
    assert shown["spec"]["recipe"]["settings"]["hidden"] == 8
    assert shown["spec"]["training"]["learning_rate"] == 0.05
    assert shown["metrics"]["loss"]["count"] == shown["steps"] == 23
    assert shown["devices"]["cpu:0"]["kind"] == "cpu"
    assert shown["started"] < shown["ended"]
    assert json.loads(call("show", shown["run"][:12], "--json")[1]) == shown
    (listed,) = json.loads(call("runs", "--json")[1])
    assert (listed["run"], listed["state"], listed["step"]) == (shown["run"], "finished", 23)
    assert listed["last_loss"] == shown["metrics"]["loss"]["last"]
    assert "finished, 23 steps" in call("show", shown["dir"])[1]
    assert call("attach", shown["run"])[0] == 0


def test_ambiguous_run_name_is_refused(call: Call, runs_root: Path) -> None:
    for _ in range(7):
        write_spec(new_directory(runs_root, "digits"), make_spec("digits_mlp"))
    code, _, err = call("show", "2")
    assert code == 2
    assert "'2' is the beginning of 7 runs" in err
    assert err.endswith(" and 2 more. Give more of the name.\n")
    code, _, err = call("show", "digits_mlp")
    assert code == 2
    assert "7 runs are called 'digits_mlp': " in err


def test_run_is_found_by_the_name_it_was_given(call: Call, runs_root: Path) -> None:
    """Also where the folder is called otherwise, as that of a run that was renamed."""
    for name in ("first try", "second try"):
        write_spec(new_directory(runs_root, name), replace(make_spec("digits_mlp"), name=name))
    assert call("rename", "first try", "the best")[0] == 0
    assert "-first-try-" in json.loads(call("show", "the best", "--json")[1])["run"]
    assert "-second-try-" in json.loads(call("show", "second try", "--json")[1])["run"]
    code, _, err = call("show", "first try")
    assert code == 2
    assert "There is no run 'first try'" in err


@pytest.mark.slow
def test_window_starts_without_importing_the_commands(tmp_path: Path) -> None:
    code = (
        "import sys; from core.cli import __main__\n"
        "tell = lambda options: print(options.runs, 'core.cli.parser' in sys.modules)\n"
        "__main__.window = tell\n"
        "__main__.main(sys.argv[1:])"
    )

    def opened(*words: str) -> str:
        command = [sys.executable, "-c", code, *words]
        return subprocess.run(
            command, cwd=Path(trainyard.__file__).parent, capture_output=True, text=True, check=True
        ).stdout

    assert opened("--runs", str(tmp_path)) == f"{tmp_path} False\n"
    assert opened().endswith(" False\n")
    assert opened(f"--runs={tmp_path}") == f"{tmp_path} True\n", "the parser of all commands understands it, too"


def test_step_of_a_script_without_a_loss_is_listed(call: Call, tmp_path: Path) -> None:
    script = tmp_path / "accuracy.py"
    script.write_text("for step in range(1, 8):\n    print(f'step {step} accuracy {step / 10}', flush=True)\n")
    assert call("run", "--script", str(script), "--devices", "cpu:0")[0] == 0
    (listed,) = json.loads(call("runs", "--json")[1])
    assert (listed["step"], listed["loss"]) == (7, None)


@pytest.mark.slow
def test_exit_codes_match_run_outcome(call: Call, runs_root: Path, tmp_path: Path) -> None:
    failing = write_recipe(tmp_path, f"{LONG}\ndef loss():\n    raise RuntimeError('no such loss')\n", "failing")
    code, out, err = call("run", failing, "--devices", "cpu:0")
    assert code == 1
    assert "Worker 0 on cpu:0: RuntimeError: no such loss." in err
    assert f"all output of the run are in {runs_root}" in err
    assert err.rstrip().endswith("log.txt.")
    assert "Traceback" not in err + out

    spec = played(tmp_path / "actor")
    stopped = start(spec, runs_root).until_trained(1)
    code, out, _ = call("stop", stopped.run.id)
    assert (code, out) == (0, f"{stopped.run.id}: stopped\n")
    assert call("attach", stopped.run.id)[0] == 3
    code, _, err = call("stop", stopped.run.id)
    assert code == 2
    assert "is over already: stopped" in err

    lost = start(spec, runs_root).until_trained(1).kill_supervisor()
    assert call("attach", lost.run.id)[0] == 4


def test_ctrl_c_stops_the_run_with_a_message(runs_root: Path, endless: str) -> None:
    with in_a_process("run", endless, "--devices", "cpu:0", "--epochs", FOREVER, "--runs", runs_root) as shell:
        wait_until(lambda: runs_root.exists() and any(runs_root.iterdir()), "the run's folder")
        followed = Followed(Run(next(runs_root.iterdir()))).until_trained(1)
        assert shell.stderr.readline(), "the first line of progress: from now on Ctrl-C stops the run"
        shell.send_signal(signal.SIGINT)
        out, err = shell.communicate(timeout=PATIENCE_S)
    assert shell.returncode == 3
    assert "Stopping; Ctrl-C again forces it." in err
    assert ": stopped, loss " in out
    assert out.strip().endswith(", memory released")
    assert followed.until_over().state is RunState.STOPPED


def test_garbage_lines_in_events_are_skipped(call: Call, runs_root: Path) -> None:
    run_dir = recorded(runs_root)
    before = json.loads(call("show", run_dir.name, "--json")[1])
    garbage = [
        b"\xff\xfe\x00garbage\n", b'{"kind": "metrics", "t": "soon"}\n', b"[1, 2]\n", b'{"t": 1}\n',
        b'{"t": 2e9, "kind": "metrics", "first": "x", "values": 3}\n', b'{"t": 2e9, "kind": "sample"}\n',
        b'{"t": 2e9, "kind": "state", "state": "flying"}\n', b'{"t": 2e9, "kind": "unheard-of"}\n', b'{"torn": ',
    ]
    for file in (run_dir / "events").glob("*.jsonl"):
        with file.open("ab") as events:
            events.writelines(garbage)
    after = json.loads(call("show", run_dir.name, "--json")[1])
    assert any("are not events and were skipped" in notice for notice in after["notices"])
    assert {**after, "ended": None, "notices": []} == {**before, "ended": None}
    assert "are not events and were skipped" in call("show", run_dir.name)[1]


def test_closed_stdout_pipe_is_no_error(runs_root: Path) -> None:
    command = f"{sys.executable} -m core.cli recipes --json | true"
    shell = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in shell.stderr
