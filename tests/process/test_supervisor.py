"""Startup of the supervisor: refusals, the memory baseline and failures to start a worker."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest

from core.devices.device import Device, Sample, Survey
from core.errors import RunError
from core.launchers import local
from core.runs.facts import RunState
from core.schema.event_kinds import Verdict
from core.schema.paths import EVENTS
from core.schema.spec import write_spec
from core.supervisor import monitor
from core.supervisor.jobs import RecipeJob
from core.supervisor.supervisor import Supervisor
from core.system import processes
from core.system.processes import TAG
from tests.support.running import attached, make_spec

CPU = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon", cores=(0,))
SECOND = Device(id="cpu:1", kind="cpu", label="CPU 1", name="Xeon", cores=(1,))


class Sampler:
    """Has one sample per poll; the time of a sample is the number of polls so far."""

    def __init__(self, *devices: Device) -> None:
        self.devices = devices or (CPU,)
        self.polls = 0
        self._new: list[Sample] = []

    def poll(self) -> Survey:
        self.polls += 1
        self._new += [Sample(device_id=each.id, time=self.polls, memory_used_bytes=0) for each in self.devices]
        return Survey(devices=self.devices, samples=tuple(self._new[-len(self.devices) :]))

    def survey(self, timeout_s: float) -> Survey:
        return self.poll()

    def new_samples(self) -> list[Sample]:
        new, self._new = self._new, []
        return new

    def watch(self, pids: object) -> None:
        pass

    def set_period(self, period_s: float, *, processes_s: float) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    # Processes of the machine are found by the name of the run.
    made = tmp_path / f"run-{os.getpid()}"
    for part in (EVENTS, "control"):
        (made / part).mkdir(parents=True)
    write_spec(made, make_spec("digits_mlp"))
    return made


def supervise(run_dir: Path, sampler: Sampler, **choices: str) -> None:
    spec = make_spec("digits_mlp", **choices)
    Supervisor(run_dir, spec, sampler, RecipeJob(spec, run_dir)).run()  # type: ignore[arg-type]


def test_run_without_proc_fails_with_a_message(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc the supervisor could neither see nor terminate its workers."""
    monkeypatch.setattr(processes, "identify", lambda *_: None)
    supervise(run_dir, Sampler())
    run = attached(run_dir)
    assert run.facts.state is RunState.FAILED
    assert str(run.facts.error).startswith("No process can be seen here, since nothing is mounted on /proc:")
    assert run.facts.traceback is None


def test_memory_baseline_is_not_older_than_the_preflight_check(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, seen = Sampler(), []
    polled_before: list[int] = []

    class Watch(monitor.MemoryWatch):
        def begin(self, samples: Iterable[Sample]) -> None:
            seen.extend(samples)
            raise RunError("That is all.")

    monkeypatch.setattr(monitor, "MemoryWatch", Watch)
    monkeypatch.setattr(local, "check_visible_devices", lambda *_: polled_before.append(sampler.polls))
    polls_of_launches: list[int] = []

    def launch(*_: object) -> NoReturn:
        polls_of_launches.append(sampler.polls)
        raise OSError(errno.ENOENT, "No such file")

    monkeypatch.setattr(local, "launch", launch)
    supervise(run_dir, sampler)
    assert polled_before[-1] < seen[-1].time <= polls_of_launches[0]


def test_first_worker_is_terminated_when_the_second_cannot_start(run_dir: Path, monkeypatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def launch(*_: object) -> subprocess.Popen[bytes]:
        if started:
            raise OSError(errno.EMFILE, "Too many open files")
        started.append(subprocess.Popen(
            ["sleep", "600"], stdin=subprocess.PIPE, start_new_session=True,
            env={**os.environ, TAG: run_dir.name},
        ))
        return started[-1]

    monkeypatch.setattr(local, "launch", launch)
    supervise(run_dir, Sampler(CPU, SECOND), strategy="ddp", devices=f"{CPU.id},{SECOND.id}")
    run = attached(run_dir)
    assert [state for _, state in run.facts.history[-2:]] == [RunState.RELEASING, RunState.FAILED]
    assert "The workers could not be started: Too many open files." in str(run.facts.error)
    assert started[0].poll() == -signal.SIGKILL
    assert {name: each.verdict for name, each in run.facts.releases.items()} == dict.fromkeys(
        (CPU.id, SECOND.id), Verdict.RELEASED
    )
