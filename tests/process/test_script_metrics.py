"""Metrics read from unchanged scripts: correct values and steps without duplicates, and the progress.

The training libraries are the real ones.
"""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.cli.__main__ import main
from core.metrics.reading import IN_EPOCH
from core.runs.facts import RunState
from core.schema.event_kinds import RunProgress
from core.series.series import Series
from tests.support.listening import Listeners, beyond_loopback
from tests.support.patient_supervisor import start_patiently
from tests.support.running import Followed, script_spec, source_spec, train
from tests.support.waiting import wait_until

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def ran(
    name: str, *arguments: str, cwd: Path, devices: str = "cpu:0", launch: str = "one", **choices: object
) -> Followed:
    """Run a script of the collection in its own folder until it finishes."""
    spec = script_spec(SCRIPTS / name, *arguments, cwd=cwd, devices=devices, launch=launch, **choices)
    with Listeners(cwd / "runs") as listeners:
        followed = start_patiently(spec, cwd / "runs").until_over()
    assert beyond_loopback(listeners.seen) == set()
    assert bool(listeners.seen) == (launch == "per-device"), "ranks listen for each other"
    assert followed.state is RunState.FINISHED, followed.run.log_end()
    assert followed.run.facts.notices == ()
    return followed


def points(series: Series) -> dict[int, float]:
    """Return the values by step; fail if a step occurs twice."""
    steps = [int(step) for step in series.steps]
    assert len(set(steps)) == len(steps)
    assert steps == sorted(steps)
    return dict(zip(steps, series.values.tolist(), strict=True))


@pytest.mark.e2e
def test_plain_torch_loop_metrics(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    followed = ran("plain_torch.py", "--record", str(record), cwd=tmp_path)

    recorded = {int(step): loss for step, loss in json.loads(record.read_text()).items()}
    assert len(recorded) == 40
    assert points(followed.run_series.metrics["loss"]) == pytest.approx(recorded)
    assert points(followed.run_series.metrics["learning_rate"]) == pytest.approx(dict.fromkeys(recorded, 0.1))
    assert sorted(followed.run_series.metrics) == ["learning_rate", "loss"]
    assert followed.run.facts.step == 40


@pytest.mark.e2e
def test_torchrun_ranks_have_separate_metrics(tmp_path: Path) -> None:
    record = tmp_path / "record"
    followed = ran("torchrun_ddp.py", str(record), cwd=tmp_path, devices="cpu:0,cpu:1", launch="per-device")

    for rank, name in enumerate(["loss", "loss@1"]):
        recorded = json.loads(Path(f"{record}.{rank}").read_text())
        assert (recorded["local_rank"], recorded["world_size"]) == (rank, 2)
        losses = {int(step): loss for step, loss in recorded["losses"].items()}
        assert points(followed.run_series.metrics[name]) == pytest.approx(losses)
    assert sorted(followed.run_series.metrics) == ["loss", "loss@1"]


@pytest.mark.e2e
def test_keras_fit_metrics(tmp_path: Path) -> None:
    """With progress bars; `test_keras_fit_log` reads the lines without them, too."""
    record = tmp_path / "record.json"
    followed = ran("keras_fit.py", "1", str(record), cwd=tmp_path)

    history = json.loads(record.read_text())
    loss, validation = (points(followed.run_series.metrics[name]) for name in ("loss", "val_loss"))
    for epoch, step in enumerate([10, 20, 30]):
        assert loss[step] == pytest.approx(history["loss"][epoch], abs=1e-4)
        assert validation[step] == pytest.approx(history["val_loss"][epoch], abs=1e-4)
    assert list(validation) == [10, 20, 30]
    assert followed.run.facts.progress == RunProgress(done=30, total=30, unit="steps")
    assert sorted(followed.run_series.metrics) == ["loss", "val_loss"]


def test_tqdm_bar_metrics_and_progress(tmp_path: Path) -> None:
    followed = ran("tqdm_loop.py", cwd=tmp_path)

    loss = points(followed.run_series.metrics["loss"])
    assert loss == pytest.approx({step: round(1 / step, 6) for step in range(1, 101)})
    assert followed.run.facts.progress == RunProgress(done=50, total=50, unit=IN_EPOCH)


@pytest.mark.e2e
def test_tensorboard_only_metrics(tmp_path: Path) -> None:
    """Where TensorFlow is not installed: PyTorch's writer would import it, which takes longer than all else."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "tensorflow.py").write_text("raise ModuleNotFoundError(name=__name__)\n")
    followed = ran("tensorboard_only.py", cwd=tmp_path, environment={"PYTHONPATH": str(folder)})

    assert points(followed.run_series.metrics["loss"]) == pytest.approx({step: 1 / (1 + step) for step in range(30)})
    assert points(followed.run_series.metrics["val_loss"]) == pytest.approx(
        {step: 2 / (1 + step) for step in (9, 19, 29)}
    )
    assert points(followed.run_series.metrics["learning_rate"]) == dict.fromkeys(range(30), 0.5)
    assert points(followed.run_series.metrics["accuracy"]) == {29: 0.5}
    assert points(followed.run_series.metrics["val_accuracy"]) == {29: 0.25}
    assert "loss" not in followed.run.log_end()


BAD = """\
import os, shutil, sys, time
from pathlib import Path

sys.stderr.write("\\rEpoch 1:  50%|" + "#" * 14_000_000 + "| 5/10 [00:01<00:01, loss=0.5]\\n")
names = os.path.join(b"n\\xe9", b"\\xff.csv")
os.mkdir(os.path.dirname(names))
for path, text in ((names, "step,psnr\\n1,30\\n2,31\\n"), ("changes.csv", "step,loss\\n1,4\\n2,3\\n")):
    with open(path, "w") as file:
        file.write(text)
with open("changes.csv", "a") as file:
    file.write("step,accuracy,loss\\n3,0.25,2\\n4,0.5,1\\n")
os.mkdir("vanishes")
Path("vanishes/log.csv").write_text("step,mae\\n1,0.5\\n2,0.25\\n")
while not Path("read").exists():
    time.sleep(0.01)
shutil.rmtree("vanishes")
print("step 5 val_loss: 0.125")
"""


def test_bad_input_costs_no_other_curve_and_is_named(tmp_path: Path) -> None:
    """A bar of 14 MB, a new header, a file that vanishes, names that are not UTF-8, a database that is locked."""
    database = tmp_path / "mlflow.db"
    followed = start_patiently(source_spec(tmp_path, BAD), tmp_path / "runs")
    wait_until(lambda: {"mae", "loss", "psnr"} <= followed.poll().run_series.metrics.keys(), "what can be read")
    with closing(sqlite3.connect(database, isolation_level=None)) as locker:
        locker.execute("CREATE TABLE metrics (value)")
        locker.execute("BEGIN EXCLUSIVE")
        (tmp_path / "read").touch()
        followed.until_over()
    assert {name: points(series) for name, series in followed.run_series.metrics.items()} == {
        "loss": {1: 4, 2: 3, 3: 2, 4: 1}, "accuracy": {3: 0.25, 4: 0.5}, "mae": {1: 0.5, 2: 0.25},
        "psnr": {1: 30, 2: 31}, "val_loss": {5: 0.125},
    }
    assert followed.run.facts.notices == (f"{database} is locked by its writer. Its metrics are missing here.",)
    assert followed.state is RunState.FINISHED


def test_silent_script_has_no_metrics_and_the_commands_say_so(tmp_path: Path, capsys) -> None:
    followed = ran("silent.py", cwd=tmp_path)
    assert followed.run_series.metrics == {}
    assert followed.run.facts.progress is None
    sentence = "No measurement was found in its output or files; see docs/scripts.md, or use --expression."
    for command, *options in (["show"], ["attach"], ["export", "--csv", "-"]):
        assert main([command, followed.run.id, *options, "--runs", str(tmp_path / "runs")]) == 0
        printed = capsys.readouterr()
        assert (printed.out if command == "show" else printed.err).count(sentence) == 1
    assert printed.out.split() == ["metric,step,time,value"]


def test_lines_that_were_not_understood_are_shown_with_how_to_point_at_them(tmp_path: Path, capsys) -> None:
    source = "for n in range(3):\n    print(f'wobble : {1.3 - n / 10:.2f}')\nprint('bye')\n"
    run = train(source_spec(tmp_path, source), tmp_path / "runs").run
    assert main(["show", run.id, "--runs", str(tmp_path / "runs")]) == 0
    printed = capsys.readouterr().out
    assert "Its last line: bye\n" in printed
    assert "numbers that were not understood:\n      wobble : 1.10\n" in printed
    assert f"trainyard try {run.id} --point 'wobble : 1.10' 1.10\n" in printed


@pytest.mark.parametrize(
    ("file", "handlers", "named"),
    [
        ("train.log", "logging.FileHandler('train.log')", True),
        ("logs/a.txt", "logging.FileHandler('logs/a.txt')", True),
        ("train.log", "logging.FileHandler('train.log'), logging.StreamHandler()", False),
        ("old.log", "logging.NullHandler()", False),
    ],
)
def test_text_that_only_a_file_has_is_named(tmp_path: Path, file: str, handlers: str, *, named: bool) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "old.log").write_text("step 1 loss 0.5\n")
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    source = (
        f"import logging\nlogging.basicConfig(level='INFO', handlers=[{handlers}])\n"
        "open('notes.txt', 'a').close()\n"
        "for step in range(6): logging.info('step %d loss %.4f', step, 1 / (step + 1))\n"
    )
    run = train(source_spec(tmp_path, source), tmp_path / "runs").run
    notices = [each for each in run.facts.notices if "has lines with measurements" in each]
    assert len(notices) == named
    assert all(each.startswith(f"{tmp_path}/{file} has lines") for each in notices)


def test_metrics_file_takes_precedence_over_printed_values(tmp_path: Path) -> None:
    followed = ran("own_file.py", cwd=tmp_path)
    assert points(followed.run_series.metrics["loss"]) == pytest.approx({step: 1 / step for step in range(1, 21)})
    assert points(followed.run_series.metrics["val_loss"]) == pytest.approx({10: 0.2, 20: 0.1})


@pytest.mark.e2e
def test_lightning_metrics(tmp_path: Path) -> None:
    followed = ran("lightning_fit.py", cwd=tmp_path)

    (table,) = tmp_path.glob("logs/lightning_logs/version_0/metrics.csv")
    header, *rows = [line.split(",") for line in table.read_text().splitlines()]
    columns = {name: header.index(name) for name in header}

    def recorded(name: str) -> dict[int, float]:
        return {int(row[columns["step"]]): float(row[columns[name]]) for row in rows if row[columns[name]]}

    assert len(recorded("train_loss")) == 30
    assert points(followed.run_series.metrics["loss"]) == pytest.approx(recorded("train_loss"), rel=1e-6)
    assert points(followed.run_series.metrics["val_loss"]) == pytest.approx(recorded("val_loss"), rel=1e-6)


@pytest.mark.e2e
def test_accelerate_metrics(tmp_path: Path) -> None:
    followed = ran("accelerate_loop.py", cwd=tmp_path, devices="cpu:0,cpu:1", launch="per-device")
    printed = re.findall(r"step (\d+) \| train_loss: (\S+)", followed.run.log_end(100_000))
    assert len(printed) == 8, "each of two ranks has half of the 16 batches"
    assert points(followed.run_series.metrics["loss"]) == pytest.approx(
        {int(step): float(loss) for step, loss in printed}
    )


@pytest.mark.e2e
def test_transformers_trainer_metrics(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    followed = ran("huggingface_trainer.py", str(record), cwd=tmp_path)

    history = json.loads(record.read_text())
    for ours, theirs in (("loss", "loss"), ("val_loss", "eval_loss"), ("learning_rate", "learning_rate")):
        wanted = {each["step"]: each[theirs] for each in history if theirs in each}
        assert points(followed.run_series.metrics[ours]) == pytest.approx(wanted, rel=1e-3), ours
    assert followed.run.facts.progress == RunProgress(done=16, total=16, unit="steps")
