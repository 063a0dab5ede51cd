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
from core.diagnosis.causes import Cause
from core.diagnosis.failures import failure_of
from core.errors import RunError
from core.launchers import local
from core.runs.facts import RunState
from core.schema.event_kinds import Verdict
from core.schema.paths import EVENTS, RESERVE
from core.schema.spec import write_spec
from core.supervisor import monitor, supervisor
from core.supervisor.jobs import RecipeJob
from core.supervisor.supervisor import Supervisor
from core.system import processes
from core.system.processes import TAG
from core.system.procfs import memory_groups, reached_limit
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


GROUP_FILES = {
    "": ("memory.max", "memory.events", "low 0\nhigh 0\nmax 9\noom {hits}\noom_kill {kills}\n"),
    "memory": ("memory.limit_in_bytes", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"),
}
UNLIMITED = {"": "max\n", "memory": "9223372036854771712\n"}


def write_group(folder: Path, version: str, limit: str, *, hits: int, kills: int) -> None:
    """Write the files of a control group: for version 2, or that of the controller `memory` of version 1."""
    folder.mkdir(parents=True, exist_ok=True)
    limit_file, counters, form = GROUP_FILES[version]
    (folder / limit_file).write_text(limit)
    (folder / counters).write_text(form.format(hits=hits, kills=kills))
    (folder / "memory.failcnt").write_text(f"{hits}\n")


@pytest.mark.parametrize("version", ["", "memory"], ids=["version 2", "version 1"])
@pytest.mark.parametrize(
    ("own", "above", "limited"),
    [
        ({"limit": "536870912\n", "hits": 1, "kills": 1}, {"limit": "max", "hits": 1, "kills": 1}, "own"),
        ({"limit": "max", "hits": 0, "kills": 1}, {"limit": "536870912\n", "hits": 1, "kills": 1}, "above"),
        ({"limit": "536870912\n", "hits": 0, "kills": 1}, {"limit": "max", "hits": 0, "kills": 1}, None),
        ({"limit": "536870912\n", "hits": 3, "kills": 0}, {"limit": "max", "hits": 3, "kills": 1}, None),
        ({"limit": "max", "hits": 1, "kills": 1}, {"limit": "max", "hits": 1, "kills": 1}, None),
    ],
    ids=["its limit", "a limit above it", "the machine", "another group", "no limit"],
)
def test_group_whose_limit_ended_a_process_is_found(tmp_path: Path, version: str, own, above, limited) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("9:name=systemd:/x\n8:pids:/\n" + (
        "4:memory:/above/own\n0::/\n" if version else "0::/above/own\n"))
    folders = {"own": tmp_path / version / "above" / "own", "above": tmp_path / version / "above"}

    def write(*, is_later: bool) -> None:
        for folder, each in ((folders["own"], own), (folders["above"], above)):
            limit = UNLIMITED[version] if each["limit"] == "max" else each["limit"]
            write_group(folder, version, limit, hits=7 + is_later * each["hits"], kills=2 + is_later * each["kills"])

    write(is_later=False)
    before = memory_groups(tmp_path, tmp_path)
    write(is_later=True)
    found = reached_limit(before, memory_groups(tmp_path, tmp_path))
    assert (found and found.file) == (limited and folders[limited] / GROUP_FILES[version][0])
    assert found is None or found.limit_bytes == 536870912
    for missing in ([], memory_groups(tmp_path / "none", tmp_path), memory_groups(tmp_path, tmp_path / "none")):
        assert (missing, reached_limit(missing, before), reached_limit(before, missing)) == ([], None, None)


LIMIT = "The kernel ended a process meanwhile because of a memory limit: 512 MB ({file})."


@pytest.mark.parametrize(("hits", "cause"), [(1, Cause.LIMIT), (0, Cause.KILLED)])
def test_run_killed_at_the_memory_limit_of_its_group_says_so(tmp_path, run_dir, monkeypatch, hits, cause) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/box\n")
    (run_dir / EVENTS / RESERVE).touch()  # without it, the disk counts as full
    write_group(tmp_path / "box", "", "536870912\n", hits=0, kills=0)
    monkeypatch.setattr(supervisor, "memory_groups", lambda: memory_groups(tmp_path, tmp_path))
    monkeypatch.setattr(supervisor, "oom_kills", lambda: None)
    started: list[subprocess.Popen[bytes]] = []

    def launch(*_: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"]))
        write_group(tmp_path / "box", "", "536870912\n", hits=hits, kills=1)
        started[0].kill()
        return started[0]

    monkeypatch.setattr(local, "launch", launch)
    supervise(run_dir, Sampler())
    facts = attached(run_dir).facts
    limit = LIMIT.format(file=tmp_path / "box" / "memory.max")
    assert (facts.state, limit in str(facts.error)) == (RunState.FAILED, bool(hits)), facts.error
    failure = failure_of(facts, None)
    assert failure is not None
    assert failure.cause is cause
    if hits:
        assert failure.title == "The run reached its memory limit of 512 MB"
        assert f"may use no more main memory ({tmp_path / 'box' / 'memory.max'}). Raise that limit" in failure.sentence


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
