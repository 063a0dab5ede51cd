"""Kill a training process again and again while it writes checkpoints, and resumes it each time.

    python -m tests.support.killing RUN_DIR KILLS    (in the pool of PyTorch)

The worker is the real one, forked from a process that has loaded the framework, so that fifty lives
take seconds. Prints one JSON document: for each worker, the step from which it resumed and the unfinished checkpoints.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from core.catalog.strategies import find_strategy
from core.devices.cpu import cpu_devices
from core.launchers.local import assign_ranks
from core.schema import checkpoint, paths
from core.worker import main
from tests.support.waiting import wait_until


def life(run_dir: Path) -> int:
    """Fork a worker and return its pid. This process holds the pipe of its dead-man switch."""
    assignment = assign_ranks(cpu_devices()[:1], find_strategy("pytorch", "single"))[0]
    ours, theirs = os.pipe()[::-1]
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(theirs, 0)
        os.close(ours)
        log = os.open(run_dir / "log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os._exit(main.main(str(run_dir), assignment.to_text()))
    os.close(theirs)
    return pid


def half_written(run_dir: Path, since: float = 0.0) -> list[str]:
    """Return unfinished checkpoints modified since a time in unix seconds."""
    found = []
    for path in (run_dir / paths.CHECKPOINTS).glob(".*"):
        with contextlib.suppress(FileNotFoundError):  # it was finished just now
            if path.stat().st_mtime > since:
                found.append(path.name)
    return found


def newest(run_dir: Path) -> int:
    """Return the step of the newest checkpoint, which must be complete, or 0."""
    every = checkpoint.folders(run_dir)
    return checkpoint.read(every[0]).step if every else 0


def kill_often(run_dir: Path, kills: int) -> list[dict[str, object]]:
    """Run one worker after the other and kill each at a random moment of a write."""
    chance = random.Random(0)
    lives: list[dict[str, object]] = []
    for _ in range(kills):
        found = newest(run_dir)
        born = time.time()
        pid = life(run_dir)
        wait_until(lambda born=born: half_written(run_dir, since=born), "a checkpoint being written")
        if chance.random() < 0.5:  # else at once: a quick disk has finished soon
            time.sleep(chance.random() * 0.1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        lives.append({"from": found, "half": half_written(run_dir), "then": newest(run_dir)})
    return lives


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # loads what the first optimizer loads, for all lives
    folder = Path(sys.argv[1])
    lives = kill_often(folder, int(sys.argv[2]))
    final = life(folder)
    _, status = os.waitpid(final, 0)
    print(json.dumps({"lives": lives, "exit": os.waitstatus_to_exitcode(status)}))
