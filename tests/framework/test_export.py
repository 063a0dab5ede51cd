"""Export: the exported model loads with its framework alone and equals the trained model."""

import json
import os
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import pytest

from core.catalog import recipes
from core.catalog.recipes import standalone
from core.errors import RunError
from core.language import Message
from core.launchers.export_model import export_model
from core.runs.facts import RunState
from core.runs.outputs import listed_checkpoints
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.spec import RunSpec, write_spec
from core.series.report import export_csv
from core.series.run_series import loss_of
from core.worker import export as exporter
from tests.support.commands import call
from tests.support.running import LONG_PYTORCH, Followed, folded, make_spec, train, write_recipe
from tests.support.waiting import PATIENCE_S
from tests.support.worker_pool import FAMILIES, WorkerPools
from tests.unit.test_events import fill


def trained(runs_root: Path, recipe: str, **settings: object) -> Run:
    followed = train(make_spec(recipe, epochs=1, **settings), runs_root)
    assert followed.state is RunState.FINISHED, followed.run.facts.error
    return followed.run


def python(folder: Path, code: str) -> str:
    """Return what the code prints when run in `folder` without Trainyard on the path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


IN_POOL = """
    import os, sys
    from core.worker import boot

    reading, _ = os.pipe()
    os.dup2(reading, 0)  # the dead-man switch
    sys.argv = ["boot.py", "--export", sys.argv[1]]
    boot.main()  # if it fails, the answer says why
"""


@pytest.fixture
def in_pool(pools: WorkerPools, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Export in a worker pool while the fixture's patch is there: to import a framework takes most of the time."""

    def export(spec: RunSpec, request: str) -> str:
        return pools.run(FAMILIES[spec.framework], IN_POOL, request, environment={"CUDA_VISIBLE_DEVICES": ""})

    monkeypatch.setattr("core.launchers.export_model._run", export)
    return monkeypatch


def left_beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir() if folder.name in path.name)


@pytest.mark.e2e(pooled=True)
def test_exported_pytorch_model_loads_without_trainyard(runs_root: Path, tmp_path: Path) -> None:
    """The recipe imports a neighbouring file."""
    (tmp_path / "mine").mkdir()
    recipe, accuracy = standalone(recipes.find("digits_cnn", "pytorch")).split("def accuracy")
    (tmp_path / "mine" / "neighbour.py").write_text(f"def accuracy{accuracy}")
    file = tmp_path / "mine" / "digits_cnn.py"
    file.write_text(recipe.replace("import torch\n", "import torch\nfrom neighbour import accuracy\n", 1))
    run = trained(runs_root, str(file), settings={"width": 4})
    folder = tmp_path / "out" / "model"
    exported = export_model(run.dir, folder)
    assert (exported.checkpoint, exported.step, exported.format) == ("step-00000023", 23, "state_dict")
    assert {"model.pt", "recipe.py", "settings.json", "load.py"} <= set(exported.files)
    assert left_beside(folder) == ["model"]
    moved = folder.rename(tmp_path / "elsewhere")
    code = f"""
        import sys
        from load import model
        import torch
        assert not [name for name in sys.modules if name.partition(".")[0] in ("core", "resources", "_trainyard")]
        saved = torch.load({str(listed_checkpoints(run.dir)[0].path / "model.pt")!r}, weights_only=True)
        assert all(torch.equal(saved[name], tensor) for name, tensor in model.state_dict().items())
        print(model(torch.zeros(3, 1, 8, 8)).shape[0], model[0].out_channels, model.training)
    """
    assert python(moved, code) == "3 4 False"
    assert json.loads((moved / "settings.json").read_text())["training"]["seed"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("in_pool")
def test_exported_pipeline_model_merges_all_stages(runs_root: Path, tmp_path: Path, pools: WorkerPools) -> None:
    run = trained(runs_root, "digits_mlp", devices="cpu:0,cpu:1", strategy="pipeline")
    folder = tmp_path / "model"
    export_model(run.dir, folder)
    paths = [str(path) for path in sorted(listed_checkpoints(run.dir)[0].path.glob("model-*.pt"))]
    code = f"""
        import os, sys
        os.chdir({str(folder)!r})
        sys.path.insert(0, "")
        from load import model
        import torch
        for state in [model.state_dict(), *(torch.load(path, weights_only=True) for path in {paths})]:
            print(*state)
    """
    names, *parts = (line.split() for line in pools.run("torch", code).splitlines())
    assert len(parts) == 2
    assert sorted(parts[0] + parts[1]) == sorted(names)


@pytest.mark.e2e(pooled=True)
def test_exported_keras_model_loads_without_trainyard(runs_root, tmp_path, in_pool) -> None:
    """In both formats, one exported in a pool. One process loads both models: each would import TensorFlow."""
    run = trained(runs_root, "digits_mlp", framework="tensorflow")
    for format_name in ("saved_model", "keras"):
        exported = export_model(run.dir, tmp_path / format_name, format_name=format_name)
        assert exported.format == format_name
        in_pool.undo()
    code = f"""
        import os, runpy, sys
        import numpy as np
        saved = np.load({str(listed_checkpoints(run.dir)[0].path / "model.npz")!r})

        def check(weights, counted):
            model = runpy.run_path("load.py")["model"]
            equal = all(any(np.array_equal(saved[name], each) for each in weights) for name in saved.files)
            ours = [name for name in sys.modules if name.partition(".")[0] in ("core", "resources", "_trainyard")]
            print(equal, len(getattr(model, counted)) >= 2, ours)

        import tensorflow as tf
        os.chdir("saved_model")
        check([each.numpy() for each in tf.saved_model.load("saved_model").variables], "variables")
        import keras
        os.chdir("../keras")
        check(keras.saving.load_model("model.keras").get_weights(), "weights")
    """
    assert python(tmp_path, code).splitlines() == ["True True []"] * 2


@pytest.mark.e2e(pooled=True)
def test_export_errors_describe_the_cause(runs_root: Path, tmp_path: Path, in_pool: pytest.MonkeyPatch) -> None:
    """All exports but the last are in a pool. The next test but one, of a replaced checkpoint, has a cold one, too."""
    source = Path(write_recipe(tmp_path, LONG_PYTORCH))
    run = trained(runs_root, str(source), checkpoints={"unit": "steps", "every": 1, "keep": 9, "best": False})
    folder = tmp_path / "model"
    first, *_ = every = listed_checkpoints(run.dir)
    names = ", ".join(each.path.name for each in every)

    with pytest.raises(ValueError, match="PyTorch model cannot be exported as keras"):
        export_model(run.dir, folder, format_name="keras")
    with pytest.raises(ValueError, match=f"has no checkpoint 'step-7'. Choose from: {names}"):
        export_model(run.dir, folder, checkpoint_name="step-7")
    with pytest.raises(ValueError, match="exists already and is not an empty folder"):
        export_model(run.dir, tmp_path)
    source.write_text(f"{LONG_PYTORCH}\ndef model():\n    return nn.Linear(4, 3)\n")
    with pytest.raises(RunError, match=f"could not be exported: Checkpoint {first.path.name} is of another model"):
        export_model(run.dir, folder)
    source.write_text(f"{LONG_PYTORCH}\nraise RuntimeError('not today')\n")
    with pytest.raises(RunError, match="could not be exported: RuntimeError: not today"):
        export_model(run.dir, folder)
    in_pool.undo()
    source.write_text(f"{LONG_PYTORCH}\nimport os\nprint('a last word', flush=True)\nos._exit(3)\n")
    with pytest.raises(RunError, match="Its last line of output: a last word"):
        export_model(run.dir, folder)
    with (first.path / "model.pt").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match=f"Checkpoint {first.path.name} is damaged: model.pt has"):
        export_model(run.dir, folder)
    assert left_beside(folder) == []


def test_export_command_rejects_invalid_requests(runs_root: Path, tmp_path: Path, capsys) -> None:
    run = trained(runs_root, write_recipe(tmp_path, LONG_PYTORCH), checkpoints={"unit": "never"})

    export = partial(call, capsys, "export", run.id, "--runs", runs_root)
    code, _, err = export("--model", str(tmp_path / "model"))
    assert code == 2
    assert f"Run {run.id} has no checkpoint. While it runs, `trainyard save {run.id}` writes one" in err
    code, _, err = export("--model", str(tmp_path / "model"), "--csv", "-")
    assert code == 2
    assert "Both --csv and --model are given." in err
    code, _, err = export("--csv", "-", "--checkpoint", "best")
    assert code == 2
    assert "--format and --checkpoint are options of --model" in err
    assert export()[0] == 2


@pytest.mark.usefixtures("in_pool")
def test_best_checkpoint_can_be_exported(runs_root: Path) -> None:
    followed = train(make_spec("digits_mlp", epochs=3, checkpoints={"unit": "epochs"}), runs_root)
    exported = export_model(followed.run.dir, followed.run.dir.parent / "best", checkpoint_name="best")
    losses = Followed(followed.run.attach(followed.run.dir)).until_over().run_series.metrics["val_loss"]
    best = int(losses.steps[losses.values.argmin()])
    assert exported.step == best


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "keras"])
def test_loss_of_a_run_is_that_of_its_best_checkpoint_or_the_difference_is_said(framework, runs_root, capsys) -> None:
    """Whether a new best is saved depends on the speed of the disk; what is said does not."""
    followed = train(make_spec("digits_mlp", framework=framework, epochs=8, learning_rate=0.03), runs_root)
    run_dir = followed.run.dir
    folder, kept = checkpoint.best_of(checkpoint.folders(run_dir))
    best = followed.run_series.metrics["val_loss"].min
    assert folder is not None
    assert kept is not None
    loss = loss_of(followed.run_series, followed.run.facts)
    assert loss is not None
    assert loss.value == best
    assert loss.kept == (None if kept == pytest.approx(best, rel=1e-6) else kept)
    out = call(capsys, "show", run_dir.name, "--runs", runs_root)[1]
    assert ("(kept: " in out) == (loss.kept is not None)
    events = call(capsys, "show", run_dir.name, "--events", "--runs", runs_root)[1]
    last = next(line for line in reversed(events.splitlines()) if "Checkpoint written" in line)
    assert ("not kept" in last) == (loss.kept is not None)
    value = checkpoint.read(checkpoint.folders(run_dir)[0]).value
    assert value is not None
    assert ("best so far" in last) == (value == pytest.approx(best, rel=1e-6))
    code, _, err = call(capsys, "export", run_dir.name, "--model", run_dir / "best", "--checkpoint", "best",
                        "--runs", runs_root)
    assert code == 0
    assert ("was not kept: val. loss" in err) == (loss.kept is not None)


def test_csv_export_to_full_disk_leaves_no_file(small_disk: Path) -> None:
    run_series = folded({"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0]}})
    export_csv(run_series, small_disk / "fits.csv")
    assert (small_disk / "fits.csv").read_text().startswith("metric,step,time,value\nloss,1,")
    fill(small_disk)
    with pytest.raises(RunError, match=r"The disk is full: .*a\.csv could not be written\. Free some space\.$"):
        export_csv(run_series, small_disk / "a.csv")
    assert not (small_disk / "a.csv").exists()


def test_full_disk_is_detected_from_any_framework_error(small_disk: Path) -> None:
    error = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 1984 vs 1936.")
    assert not exporter._is_full(small_disk, error)
    fill(small_disk)
    assert exporter._is_full(small_disk, error)
    assert not exporter._is_full(small_disk, PermissionError(13, "Permission denied"))


def test_model_export_to_full_disk_fails_with_a_clear_message(runs_root, small_disk, tmp_path, monkeypatch) -> None:
    run_dir = runs_root / "one"
    run_dir.mkdir(parents=True)
    write_spec(run_dir, make_spec("digits_mlp"))
    monkeypatch.setattr("core.launchers.export_model.whole", lambda *_: tmp_path)

    def refused(_: object, request: str) -> str:
        Path(json.loads(request)["answer"]).write_text(json.dumps({"error": "unexpected pos", "full": True}))
        return ""

    monkeypatch.setattr("core.launchers.export_model._run", refused)
    with pytest.raises(RunError, match=r"is full: .*\. Free some space, or name a folder on another disk"):
        export_model(run_dir, small_disk / "model")
    assert list(small_disk.iterdir()) == []


@pytest.mark.e2e(pooled=True)
def test_exporting_a_replaced_checkpoint_fails_with_a_clear_message(tmp_path: Path) -> None:
    """A training run can replace the checkpoint while the exporter still imports the framework."""
    request = {
        "run_dir": str(tmp_path), "checkpoint": str(tmp_path / "checkpoints" / "step-00000007"),
        "folder": str(tmp_path), "format": "state_dict", "answer": str(tmp_path / "answer.json"),
    }
    write_spec(tmp_path, make_spec("digits_mlp"))
    boot = Path(exporter.__file__).with_name("boot.py")
    command = [sys.executable, str(boot), "--export", json.dumps(request)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        assert process.wait(PATIENCE_S) == 1
    reply = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))
    assert Message.read(reply["error"]).startswith(
        "Checkpoint step-00000007 was replaced by newer ones before it could be read. Export again"
    )
