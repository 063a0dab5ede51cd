"""Interrupt runs after a step and resume them."""

import secrets
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.paths import EVENTS
from core.schema.spec import RunSpec
from core.system import processes
from tests.support.running import Followed, train_both, write_recipe
from tests.support.waiting import wait_until

EVERY_STEP = {"unit": "steps", "every": 1, "keep": 1000}
LEARNING = {
    "epochs": 3, "batch_size": 16, "schedule": "cosine", "warmup_steps": 4, "weight_decay": 0.1, "gradient_clip": 0.5,
}
"""Settings that show in the curve of a run that resumes at a wrong step."""


def checkpoint_names(run: Run) -> list[str]:
    """Return the names of the checkpoints of a run, the oldest first."""
    return sorted(path.name for path in (run.dir / "checkpoints").iterdir())


def broken_off(followed: Followed, after_step: int, runs_root: Path) -> Path:
    """Copy a run as if its supervisor had been killed after the checkpoint of this step."""
    followed.until_left()
    # The name tags its processes, so it must be unique even if several tests resume the same run.
    run_dir = runs_root / f"{followed.run.id}-from-{after_step}-{secrets.token_hex(4)}"
    shutil.copytree(followed.run.dir, run_dir)
    log = run_dir / EVENTS / "supervisor.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    last = next(at for at, line in enumerate(lines) if '"state": "running"' in line)
    log.write_text("".join(lines[: last + 1]))
    for path in checkpoint.folders(run_dir):
        if checkpoint.read(path).step > after_step:
            shutil.rmtree(path)
    Followed(Run.attach(run_dir)).until(RunState.LOST)
    return run_dir


def kill_after_checkpoint(followed: Followed, after_step: int) -> None:
    """Kill supervisor and workers with SIGKILL when there is a checkpoint of a later step, and wait until it is seen.

    The run may be over before.
    """

    def is_due() -> bool:
        newest = next(iter(checkpoint.folders(followed.run.dir)), None)
        has_later = newest is not None and checkpoint.read(newest).step > after_step
        return (has_later and bool(followed.poll().run.facts.workers)) or state_info(followed.poll().state).over

    wait_until(is_due, "a checkpoint")
    facts = followed.run.facts
    for process in (facts.supervisor, *(worker.process for worker in facts.workers.values())):
        processes.send(process, signal.SIGKILL)
    followed.until_over()


def resumed(run_dir: Path, on: RunSpec | None = None) -> Followed:
    """Resume a run and wait for its end. `on`: has other devices, or another strategy, to go on with."""
    Followed(Run.resume(run_dir, on=on)).until_over()
    followed = Followed(Run.attach(run_dir))
    followed.run_series.fold(followed.run.catch_up())
    return followed


def whole_and_stepwise(spec_of: Callable[..., RunSpec], source: str, root: Path) -> tuple[Followed, Followed]:
    """Return a run without checkpoints and the same run with a checkpoint per step. Copy them; do not change them."""
    recipe = write_recipe(root, source, "drops")
    return train_both(
        spec_of(recipe, checkpoints={"unit": "never"}, devices="cpu:0"),
        spec_of(recipe, checkpoints=EVERY_STEP, devices="cpu:1"),
        root / "runs",
    )
