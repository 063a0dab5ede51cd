"""A supervisor at its start: what it refuses, and what it compares the memory with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core import processes, supervisor
from core.devices.device import Device, Sample, Survey
from core.errors import RunError
from core.events import EVENTS
from core.jobs import RecipeJob
from core.launchers import local
from core.run import Run
from core.spec import write_spec
from core.state import RunState
from core.supervisor import Supervisor
from tests.running import make_spec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CPU = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon", cores=(0,))


class Sampler:
    """Has a reading at each poll, whose time is how many there were."""

    def __init__(self) -> None:
        self.polls = 0
        self._new: list[Sample] = []

    def poll(self) -> Survey:
        self.polls += 1
        self._new.append(Sample(device_id=CPU.id, time=self.polls, memory_used_bytes=0))
        return Survey(devices=(CPU,), samples=tuple(self._new[-1:]))

    def survey(self, timeout_s: float) -> Survey:
        return self.poll()

    def new_samples(self) -> list[Sample]:
        new, self._new = self._new, []
        return new

    def close(self) -> None:
        pass


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    for part in (EVENTS, "control"):
        (tmp_path / "run" / part).mkdir(parents=True)
    write_spec(tmp_path / "run", make_spec("digits_mlp"))
    return tmp_path / "run"


def supervise(run_dir: Path, sampler: Sampler) -> None:
    spec = make_spec("digits_mlp")
    Supervisor(run_dir, spec, sampler, RecipeJob(spec, run_dir)).run()  # type: ignore[arg-type]


def test_without_proc_a_run_fails_with_a_sentence(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom it started could not be seen, and so not be ended."""
    monkeypatch.setattr(processes, "identify", lambda *_: None)
    supervise(run_dir, Sampler())
    run = Run.attach(run_dir)
    run.catch_up()
    assert run.facts.state is RunState.FAILED
    assert str(run.facts.error).startswith("No process can be seen here, since nothing is mounted on /proc:")
    assert run.facts.traceback is None


def test_memory_is_compared_with_a_reading_that_is_not_older_than_the_pre_flight(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, seen = Sampler(), []
    polled_before: list[int] = []

    class Watch(supervisor.Watch):
        def begin(self, samples: Iterable[Sample]) -> None:
            seen.extend(samples)
            raise RunError("That is all.")

    monkeypatch.setattr(supervisor, "Watch", Watch)
    monkeypatch.setattr(local, "check_sight", lambda *_: polled_before.append(sampler.polls))
    supervise(run_dir, sampler)
    assert polled_before
    assert seen[-1].time > polled_before[-1]
