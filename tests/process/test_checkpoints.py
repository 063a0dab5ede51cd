"""Checkpoints: when they are written, which are kept, and how unusable ones are reported."""

import contextlib
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from core.diagnosis.timeline import Timeline
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.series.run_series import loss_of
from core.system import processes
from tests.support.resuming import EVERY_STEP, LEARNING, broken_off, checkpoint_names, resumed
from tests.support.running import Followed, make_spec, start, train, write_recipe
from tests.support.waiting import wait_until

DROPS = """
    def model(size=16):
        return "x" * size

    def train_data(items=70):
        return range(items)

    def val_data():
        return [0.5, 0.4, 0.6, 0.7, 0.8, 0.9]
"""
"""70 items in batches of 16; the last batch has 6 items. The second of six epochs has the lowest val_loss."""


def notices(followed: Followed) -> str:
    return " ".join(followed.run.facts.notices)


@pytest.fixture(scope="module")
def stepwise(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """A run with a checkpoint at every step. Tests copy it and must not change it."""
    root = tmp_path_factory.mktemp("stepwise")
    spec = make_spec(write_recipe(root, DROPS, "drops"), checkpoints=EVERY_STEP, **LEARNING)
    return train(spec, root / "runs")


def test_latest_and_best_checkpoints_are_kept(runs_root: Path, tmp_path: Path) -> None:
    kept = {"unit": "epochs", "keep": 2}
    spec = make_spec(write_recipe(tmp_path, DROPS, "drops"), epochs=6, batch_size=16, checkpoints=kept)
    followed = train(spec, runs_root)
    losses = followed.run_series.metrics["val_loss"].values.tolist()
    assert losses.index(min(losses)) == 1
    assert checkpoint_names(followed.run) == [f"step-{step:08d}" for step in (10, 25, 30)]


def test_best_model_is_kept_between_the_saves_of_an_interval(runs_root: Path, tmp_path: Path) -> None:
    """By the interval, the end alone would be saved. An epoch takes a second, and a save milliseconds."""
    slow = f"""{DROPS}
    def loss():
        import time
        return lambda weight, items: time.sleep(0.2) or weight
    """
    hourly = {"unit": "minutes", "every": 60}
    spec = make_spec(write_recipe(tmp_path, slow, "drops"), epochs=6, batch_size=16, checkpoints=hourly)
    followed = train(spec, runs_root)
    assert checkpoint_names(followed.run) == ["step-00000010-best", "step-00000030"]
    loss = loss_of(followed.run_series, followed.run.facts)
    assert loss is not None
    assert (loss.value, loss.kept) == (0.4, None)
    lines = Timeline(followed.run.spec(), "PyTorch")
    lines.fold(Run(followed.run.dir).catch_up())
    assert [each.text.partition("B, ")[2] for each in lines.entries if each.text.startswith("Checkpoint")] == [
        "val. loss 0.5 (best so far).", "val. loss 0.4 (best so far).", "val. loss 0.9.",
    ]


def test_broken_checkpoint_is_skipped_with_a_notice(runs_root: Path, stepwise: Followed) -> None:
    run_dir = broken_off(stepwise, 7, runs_root)
    model = run_dir / "checkpoints" / "step-00000007" / "state-0.json"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(content)
    (run_dir / "checkpoints" / "step-00000006" / "state-0.json").unlink()
    again = resumed(run_dir)
    assert again.losses() == stepwise.losses()
    assert "step-00000007 (state-0.json was changed or damaged)" in notices(again)
    assert "step-00000006 (state-0.json could not be read: No such file or directory)" in notices(again)
    assert "Training went on from step 5." in notices(again)


def test_resume_without_usable_checkpoint_fails_and_keeps_metrics(runs_root: Path, stepwise: Followed) -> None:
    run_dir = broken_off(stepwise, 1, runs_root)
    manifest = run_dir / "checkpoints" / "step-00000001" / "checkpoint.json"
    manifest.write_text(manifest.read_text()[:-40])
    failed = resumed(run_dir)
    broken = "All checkpoints of this run are broken: step-00000001 (checkpoint.json was changed or damaged)."
    assert broken in failed.failure
    assert failed.run_series.metrics["loss"].count == 15  # the recorded metrics are kept
    shutil.rmtree(manifest.parent)
    again = resumed(run_dir)
    assert "The run has no checkpoint to resume from. Training starts from the beginning." in notices(again)
    assert again.losses() == stepwise.losses()


def test_failed_checkpoint_write_is_reported_and_training_continues(runs_root: Path, tmp_path: Path) -> None:
    source = f"""{DROPS}
    def loss():
        import shutil
        from pathlib import Path
        for folder in Path({str(runs_root)!r}).glob("*/checkpoints"):
            shutil.rmtree(folder)
            folder.write_text("in the way")
        return lambda weight, items: weight
    """
    spec = make_spec(write_recipe(tmp_path, source), epochs=2, batch_size=16, checkpoints={"unit": "epochs"})
    followed = train(spec, runs_root)
    assert followed.state is RunState.FINISHED
    assert "The checkpoint at step 5 could not be written to" in notices(followed)
    assert "The next checkpoint is tried when it is due" in notices(followed)


def test_full_disk_removes_older_checkpoints(small_disk: Path, tmp_path: Path) -> None:
    """The disk of 1 MiB has room for two checkpoints but not for three."""
    heavy = write_recipe(tmp_path, DROPS.replace("size=16", "size=280_000"), "heavy")
    settings = {**LEARNING, "checkpoints": {"unit": "steps", "every": 1, "keep": 2, "best": False}}
    followed = train(make_spec(heavy, **settings), small_disk)
    last = len(followed.losses())
    assert followed.state is RunState.FINISHED
    assert checkpoint_names(followed.run)[-1] == f"step-{last:08d}"
    assert "The disk is full: older ones of the last 2 checkpoints were removed to make room" in notices(followed)
    assert "could not be written" not in notices(followed)


def test_disk_too_small_for_any_checkpoint_does_not_stop_training(small_disk: Path, tmp_path: Path) -> None:
    heavy = write_recipe(tmp_path, DROPS.replace("size=16", "size=2_000_000"), "heavy")
    followed = train(make_spec(heavy, **{**LEARNING, "checkpoints": EVERY_STEP}), small_disk)
    assert followed.state is RunState.FINISHED
    assert checkpoint_names(followed.run) == []
    assert notices(followed).count("could not be written") == 1  # one notice for all failures
    assert followed.run_series.metrics["loss"].count == followed.run.facts.step > 5


def half_written(run_dir: Path, since: float = 0.0) -> list[Path]:
    """Return unfinished checkpoints modified since a time in unix seconds."""
    found = []
    for path in (run_dir / "checkpoints").glob(".*"):
        with contextlib.suppress(FileNotFoundError):  # it was finished just now
            if path.stat().st_mtime > since:
                found.append(path)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.soak)])
def test_kills_during_checkpoint_writes_lose_nothing(runs_root: Path, tmp_path: Path, kills: int) -> None:
    """Each checkpoint has some megabytes, and each process resumes from the last complete one."""
    recipe = write_recipe(tmp_path, DROPS.partition("def val_data")[0].replace("size=16", "size=10_000_000"), "heavy")
    settings = {"epochs": kills, "batch_size": 16}
    whole = train(make_spec(recipe, checkpoints={"unit": "never"}, **settings), runs_root)
    followed = start(make_spec(recipe, checkpoints={"unit": "steps", "keep": 2}, **settings), runs_root)
    run_dir, chance = followed.run.dir, random.Random(0)
    halves, steps, born = 0, [], 0.0
    for _ in range(kills):
        followed.until(RunState.RUNNING)
        wait_until(lambda: len(checkpoint.folders(run_dir)) > 1, "two complete checkpoints")
        wait_until(lambda: half_written(run_dir, since=born), "a checkpoint being written")  # noqa: B023
        if chance.random() < 0.5:  # else at once: a quick disk has finished soon
            time.sleep(chance.random() * 0.1)
        processes.send(followed.run.facts.workers[0].process, signal.SIGKILL)
        assert followed.until_left().state is RunState.FAILED
        halves += bool(half_written(run_dir))
        steps.append(checkpoint.read(checkpoint.folders(run_dir)[0]).step)
        born = time.time()
        followed = Followed(Run.resume(run_dir))
    assert followed.until_over().state is RunState.FINISHED
    events = Tail(run_dir / EVENTS / "worker-0.jsonl").read()
    assert [event["step"] for event in events if event["kind"] == "rewind"] == steps == sorted(steps)
    assert halves >= kills // 5, "depends on the disk"
    again = Followed(Run.attach(run_dir)).until_over()
    assert again.run_series.metrics["loss"].steps.tolist() == list(range(1, 5 * kills + 1))
    assert again.losses() == whole.losses()
    assert half_written(run_dir) == []
