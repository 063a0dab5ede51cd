"""Many runs, half of them killed at random: no leaks on the machine or in the window."""

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from core.runs import lock
from core.runs.facts import RunState, state_info
from core.schema.spec import RunSpec
from core.system import processes
from core.system.processes import ProcessId
from tests.support.acting import guards, played
from tests.support.running import Followed, start
from tests.support.waiting import PATIENCE_S, wait_until

WARM_UP = 20
"""Number of runs after which the window has filled its caches."""
GROWTH_BYTES = 2_000_000
"""Allowed random memory growth of the window, since freed memory is not returned at once."""
GROWTH_PER_RUN_BYTES = 20_000
LIFE_S = 0.3
"""Seconds that such a run lasts once its supervisor is up, approximately."""
ROOT = Path(__file__).resolve().parents[2]

KEPT = {
    "spec.json", "log.txt", "events", "control", "checkpoints",
    "events/supervisor.jsonl", "events/worker-0.jsonl", "events/devices.jsonl", "events/guard.jsonl",
    "control/stop", "lock", "events/lock", "workload.py",
}
"""All files that a run may leave in its folder."""
RESERVE = "events/reserve"
"""Disk space reserved for final events: a lost run still has it and uses it when resumed."""


@pytest.fixture
def window(runs_root: Path) -> Iterator[psutil.Popen]:
    """A real window in its own process that opens each new run."""
    process = psutil.Popen(
        [sys.executable, "-m", "tests.support.watching", str(runs_root)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    yield process
    process.stdin.close()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.parametrize("many", [16, pytest.param(200, marks=pytest.mark.soak)])
def test_many_runs_with_half_killed_leak_nothing(runs_root, tmp_path, window, many) -> None:
    spec = played(tmp_path / "actors", steps=10, pause_s=0.02)
    endless = played(tmp_path / "endless")
    chance = random.Random(4)
    descriptors, resident = (0, 0), 0
    ends: dict[str, set[RunState]] = {}
    lost: set[str] = set()
    for number in range(2, many + 1, 2):  # two runs at a time, one of which is killed
        victim = chance.choice(list(VICTIMS))
        unharmed = start(spec, runs_root)
        # The others may be over before the blow falls, on a slow machine all of them.
        is_first = victim != "guard" and victim not in ends
        killed = one_run(endless if is_first else spec, runs_root, victim, chance, lasts=is_first)
        pair = {victim: killed, "none": unharmed.until_over()}
        for whose, followed in pair.items():
            ends.setdefault(whose, set()).add(followed.state)
            lost |= {followed.run.id} if followed.state is RunState.LOST else set()
        until_seen(window, {followed.run.id for followed in pair.values()})
        if number <= WARM_UP:
            resident = window.memory_info().rss
            descriptors = tuple(map(max, descriptors, counts(window)))  # descriptors are opened briefly now and then
    growth = window.memory_info().rss - resident
    print(f"the window grew by {growth / 1e6:.2f} MB; ends: {ends}")

    assert ends["none"] == {RunState.FINISHED}
    assert ends["guard"] == {RunState.FINISHED}
    assert RunState.LOST in ends["supervisor"]
    assert RunState.FAILED in ends["worker"]
    ids = {path.name for path in runs_root.iterdir()}
    assert len(ids) == many
    wait_until(lambda: not any(map(processes.tagged, ids)), "all processes of the runs to be gone")
    folders = [folder for path in runs_root.iterdir() for folder in (path, path / "events")]
    wait_until(lambda: not any(map(is_locked, folders)), "all locks to be free")
    left = {path.name: entries(path) - KEPT for path in runs_root.iterdir()}
    assert {name: files for name, files in left.items() if files - ({RESERVE} if name in lost else set())} == {}
    wait_until(
        lambda: all(now <= then for now, then in zip(counts(window), descriptors, strict=True)),
        f"no more open files than before, {descriptors}",
    )
    assert growth < GROWTH_BYTES + (many - WARM_UP) * GROWTH_PER_RUN_BYTES


def one_run(spec: RunSpec, runs_root: Path, victim: str, chance: random.Random, *, lasts: bool) -> Followed:
    """Run until the end, killing the victim process at a random moment. `lasts`: while it trains."""
    followed, find = start(spec, runs_root), VICTIMS[victim]
    if lasts:
        followed.until_trained(1)
    wait_until(lambda: find(followed) or state_info(followed.poll().state).over, f"the {victim}")
    moment = time.monotonic() + chance.random() * LIFE_S
    wait_until(lambda: time.monotonic() > moment, "the moment")
    for process in find(followed):
        processes.send(process, signal.SIGKILL)
    return followed.until_over()


def _supervisor(followed: Followed) -> list[ProcessId]:
    known = followed.poll().run.facts.supervisor or followed.run._coming_up
    return [known] if known else []


def _worker(followed: Followed) -> list[ProcessId]:
    return [worker.process for worker in followed.poll().run.facts.workers.values()]


def _guard(followed: Followed) -> list[ProcessId]:
    found = [processes.identify(guard.pid) for guard in guards(followed.run)] if _supervisor(followed) else []
    return [guard for guard in found if guard]


VICTIMS: dict[str, Callable[[Followed], list[ProcessId]]] = {
    "supervisor": _supervisor, "worker": _worker, "guard": _guard,
}


def until_seen(window: psutil.Popen, ids: set[str]) -> None:
    """Wait until the window has opened these runs."""
    seen: set[str] = set()
    while seen != ids:
        assert select.select([window.stdout], [], [], PATIENCE_S)[0], f"the window has not looked at {ids - seen}"
        seen |= set(os.read(window.stdout.fileno(), 4096).decode().split())  # each line is written in one call
        assert seen <= ids


def counts(window: psutil.Popen) -> tuple[int, int]:
    """Return the number of open file descriptors of this process and of the window."""
    return psutil.Process().num_fds(), window.num_fds()


def entries(run_dir: Path) -> set[str]:
    return {str(path.relative_to(run_dir)) for path in run_dir.rglob("*")}


def is_locked(folder: Path) -> bool:
    found = lock.take(folder)
    if found is not None:
        found.release()
    return found is None
