"""Fake-worker runs that act before they train, and helpers that kill their processes."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.runs.run import Run
from core.schema.spec import RunSpec
from core.system import processes
from tests.support import fake_worker
from tests.support.running import Followed, make_spec, write_recipe
from tests.support.waiting import wait_until

RECIPE = """
import json, os, signal, subprocess, sys, time
{before}

def model():
    pass

def train_data():
    return range({steps})

def loss():
    def measure(weight, items):
        time.sleep({pause_s})
        return weight
    return measure
"""

OWN_RUN = f"run-{os.getpid()}"
"""A tag of this process of tests alone, since a search covers the whole machine."""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with this tag."""
    with subprocess.Popen(["sleep", "600"], env={**os.environ, processes.TAG: OWN_RUN}) as process:
        wait_until(lambda: processes.tagged(OWN_RUN), "the sleeper to run its own program")
        yield process
        process.kill()


CHILD = "subprocess.Popen(['sleep', '3600'], start_new_session=True)"
STUBBORN_CHILD = (
    "subprocess.Popen([sys.executable, '-c', 'import signal, time; "
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "print(flush=True); time.sleep(3600)'], start_new_session=True, stdout=subprocess.PIPE).stdout.read(1)"
)
"""Starts a child that ignores signals, and returns once it does."""


def played(
    folder: Path, *, name: str = "digits_mlp", steps: int = 1_000_000, pause_s: float = 0.02, before: str = ""
) -> RunSpec:
    """Return a spec for the fake worker. `before`: lines of Python to run before the training."""
    recipe = write_recipe(folder, RECIPE.format(before=before, steps=steps, pause_s=pause_s))
    environment = folder / "environment"
    python = environment / "bin" / "python" if environment.exists() else fake_worker.install(environment)
    spec = make_spec(recipe, batch_size=1, epochs=1, checkpoints={"unit": "never"})
    return replace(spec, name=name, python=str(python))


def guards(run: Run) -> list[psutil.Process]:
    """Return the live guard of a run with a live supervisor, whose parent it is, in a list."""
    facts = run.facts
    if facts.supervisor is None or facts.guard is None:
        return []
    try:
        parent = psutil.Process(facts.supervisor.pid).ppid()
        if not processes.is_alive(facts.guard):  # asked after the parent: the supervisor may outlive it by a moment
            return []
        assert parent == facts.guard.pid
        return [psutil.Process(facts.guard.pid)]
    except psutil.NoSuchProcess:
        return []


def abandon(followed: Followed) -> Followed:
    """Kill guard and supervisor, so that no process cleans up. Return once the run is lost and its workers exited."""
    guard = followed.run.facts.guard
    assert guard
    assert processes.send(guard, signal.SIGKILL)
    wait_until(lambda: not processes.is_alive(guard), "the guard to be gone")
    followed.kill_supervisor()
    followed.until_over()
    workers = [worker.process for worker in followed.run.facts.workers.values()]
    wait_until(lambda: not any(map(processes.is_alive, workers)), "the workers to have noticed")
    return followed


class ProcView:
    """A folder like `/proc` with the processes of one test only, so that no others are read or terminated."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.path = folder
        self._mark = mark.encode()
        folder.mkdir()
        (folder / "self").symlink_to("/proc/self")

    def refresh(self) -> Path:
        """Show this process and those that have the mark now. Return the folder."""
        for link in self.path.iterdir():
            if link.name != "self":
                link.unlink()
        for pid in psutil.pids():
            try:
                marked = self._mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if marked or pid == os.getpid():
                (self.path / str(pid)).symlink_to(f"/proc/{pid}")
        return self.path


def fake_process(proc: Path, pid: int, **changes: Any) -> None:
    """Copy the `/proc` entry of a real process. `status` and `stat` map texts to their replacements."""
    entry = proc / str(pid)
    entry.mkdir(parents=True)
    for name in ("environ", "cmdline", "stat", "status", "statm"):
        text = Path(f"/proc/{pid}/{name}").read_bytes()
        for old, new in changes.get(name, {}).items():
            assert old in text, (name, old, text)
            text = text.replace(old, new)
        (entry / name).write_bytes(text)
