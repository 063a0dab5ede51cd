"""Lifecycle of real runs: state transitions in order, messages, and no processes left."""

import errno
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from core.errors import RunError
from core.runs.directory import launch_supervisor
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.paths import EVENTS, RESERVE
from core.schema.settings import StopTimeouts
from core.system import processes
from tests.support.acting import STUBBORN_CHILD, played
from tests.support.running import CAME_UP, FOREVER, LONG, Followed, attached, make_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

FINISHED = [*CAME_UP, RunState.RELEASING, RunState.FINISHED]
STOPPED = [*CAME_UP, RunState.STOPPING, RunState.RELEASING, RunState.STOPPED]
FAILED = [*CAME_UP, RunState.RELEASING, RunState.FAILED]
SOON = StopTimeouts(ask_s=1, interrupt_s=1, terminate_s=1)
PATIENT = StopTimeouts(ask_s=PATIENCE_S)
STUCK = f"""{LONG}
import time
class Stuck:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        time.sleep(3600)

def train_data():
    return Stuck()
"""


def test_finished_run_has_every_step_recorded(runs_root: Path) -> None:
    followed = train(make_spec("digits_mlp", epochs=2, batch_size=64), runs_root)
    assert followed.states == FINISHED
    assert followed.run_series.metrics["loss"].steps.tolist() == list(range(1, 47))
    assert followed.run_series.metrics["val_accuracy"].steps.tolist() == [23, 46]
    assert {worker.exit_code for worker in followed.run.facts.workers.values()} == {0}
    assert processes.tagged(followed.run.id) == []


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cpu:1"])
def test_stop_request_stops_all_workers_at_the_same_step(runs_root: Path, endless: str, devices: str) -> None:
    spec = make_spec(endless, epochs=FOREVER, devices=devices, stop_timeouts=PATIENT)
    followed = start(spec, runs_root).until_trained(10).stop()
    assert followed.states == STOPPED
    assert [step.name for step in followed.run.facts.stop_steps] == ["asked"]
    assert {worker.exit_code for worker in followed.run.facts.workers.values()} == {0}
    assert followed.run_series.metrics["loss"].count == followed.run.facts.step


def test_stop_while_workers_load_skips_the_timeout(runs_root: Path, tmp_path: Path) -> None:
    slow = write_recipe(tmp_path, f"import time\ntime.sleep(3600)\n{LONG}", "slow")
    followed = start(make_spec(slow, stop_timeouts=StopTimeouts(ask_s=3600)), runs_root).until(RunState.STARTING)
    wait_until(lambda: followed.poll().run.facts.workers, "the worker")
    followed.stop()
    assert followed.states == [RunState.STARTING, RunState.STOPPING, RunState.RELEASING, RunState.STOPPED]


def test_recipe_that_ignores_stop_is_terminated_by_signals(runs_root: Path, tmp_path: Path) -> None:
    deaf = "import signal\nfor each in signal.SIGINT, signal.SIGTERM:\n    signal.signal(each, signal.SIG_IGN)\n"
    recipe = write_recipe(tmp_path, deaf + STUCK)
    followed = start(make_spec(recipe, batch_size=4, stop_timeouts=SOON), runs_root).until(RunState.RUNNING).stop()
    assert followed.states == STOPPED
    assert [(step.name, step.grace_s) for step in followed.run.facts.stop_steps] == [
        ("asked", 1), ("SIGINT", 1), ("SIGTERM", 1), ("SIGKILL", None),
    ]
    assert followed.run.facts.workers[0].exit_code == -signal.SIGKILL


def test_force_request_skips_to_sigkill(runs_root: Path, tmp_path: Path) -> None:
    spec = make_spec(write_recipe(tmp_path, STUCK), batch_size=4, stop_timeouts=StopTimeouts(ask_s=600))
    followed = start(spec, runs_root).until(RunState.RUNNING)
    followed.run.request("stop")
    followed.until(RunState.STOPPING)
    followed.run.request("force")
    assert followed.until_over().states == STOPPED
    assert [step.name for step in followed.run.facts.stop_steps] == ["asked", "SIGKILL"]


def test_run_continues_when_the_process_that_started_it_is_killed(runs_root: Path, endless: str) -> None:
    """Another process can still read the run from its first event."""
    spec = make_spec(endless, epochs=FOREVER)
    starter = os.fork()
    if starter == 0:
        Run.start(spec, runs_root)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(starter, 0)
    (run_dir,) = runs_root.iterdir()
    followed = Followed(Run.attach(run_dir)).until_trained(10)
    followed.stop()
    assert followed.states == STOPPED
    assert followed.run_series.metrics["loss"].steps.tolist() == list(range(1, followed.run.facts.step + 1))


def test_second_supervisor_of_a_run_directory_is_refused(training: Followed) -> None:
    def launched() -> str:
        """Start another supervisor, and return the end of the log after its end."""
        other = launch_supervisor(training.run.dir)
        wait_until(lambda: other is None or not processes.is_alive(other), "the other supervisor to end")
        return training.run.log_end()

    assert "is running already" in launched()
    assert training.poll().state is RunState.RUNNING
    assert len(training.run.facts.workers) == 1
    training.run.request("stop")
    training.until_left()
    assert "has run before" in launched()
    assert Followed(Run.attach(training.run.dir)).until_over().states == STOPPED


@pytest.mark.slow
def test_devices_are_sampled_and_workers_are_pinned_to_their_cores(runs_root: Path, tmp_path: Path) -> None:
    heavy = write_recipe(tmp_path, f"BALLAST = b'x' * 120_000_000\n{LONG}", "heavy")
    followed = start(make_spec(heavy, epochs=FOREVER, devices="cpu:0,cpu:1"), runs_root).until_trained(1)
    workers = followed.run.facts.workers
    cores = [psutil.Process(workers[rank].process.pid).cpu_affinity() for rank in (0, 1)]
    assert cores == [sorted(followed.run.facts.devices[name]["cores"]) for name in ("cpu:0", "cpu:1")]
    if len(os.sched_getaffinity(0)) > 1:  # else the devices share the core
        assert not set(cores[0] or []) & set(cores[1] or [])

    def sampled() -> bool:
        run_series = followed.poll().run_series
        return all(
            name in run_series.memory and (run_series.memory[name].values > 1e8).any() for name in ("cpu:0", "cpu:1")
        )

    wait_until(sampled, "memory readings of both devices")
    followed.stop()


HOLDING = f"""{LONG}
def loss():
    def measure(output, target):
        sum(range(10**12))  # runs in C and blocks all other threads of the process
    return measure
"""


def test_all_processes_end_and_are_named_when_their_supervisor_is_killed(runs_root: Path, tmp_path: Path) -> None:
    """One worker holds the GIL, one is stopped by SIGSTOP, and a child of each ignores signals in its own session."""
    recipe = write_recipe(tmp_path, f"import subprocess, sys\n{STUBBORN_CHILD}\n{HOLDING}", "holding")
    followed = start(make_spec(recipe, devices="cpu:0,cpu:1"), runs_root).until(RunState.RUNNING)
    found = wait_until(
        lambda: len(found := processes.tagged(followed.run.id)) == 4 and found, "the workers and a child of each"
    )
    facts = followed.run.facts
    children = {each.pid for each in found} - {each.process.pid for each in facts.workers.values()}
    os.kill(facts.workers[1].process.pid, signal.SIGSTOP)
    followed.kill_supervisor()
    wait_until(lambda: not processes.tagged(followed.run.id), "all processes of the run to end")
    for reader in (followed.until_over(), Followed(Run.attach(followed.run.dir)).until_over()):
        assert reader.states == [*CAME_UP, RunState.LOST]
        assert f"supervisor (pid {facts.supervisor.pid}) exited unexpectedly" in reader.run.facts.error
        assert reader.run.facts.releases == {}
    named = wait_until(lambda: attached(followed.run.dir).facts.ended_processes, "the guard's record")
    assert {(each.pid, each.signal, each.by) for each in named} >= {(pid, "SIGKILL", "guard") for pid in children}


@pytest.mark.slow
def test_finished_worker_that_does_not_exit_is_terminated(runs_root: Path, tmp_path: Path) -> None:
    lingers = "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,)).start()\n"
    followed = train(make_spec(write_recipe(tmp_path, lingers + LONG), epochs=2), runs_root)
    assert followed.states == FINISHED
    assert any("Training is done, but these processes did not exit" in notice for notice in followed.run.facts.notices)


@pytest.mark.parametrize("ends_worker", [False, True], ids=["shutdown", "logout"])
def test_signal_to_the_supervisor_is_a_request_to_stop(training: Followed, ends_worker: bool) -> None:
    """At a shutdown it gets SIGTERM; at a log-out SIGHUP, and its workers SIGTERM at the same time."""
    os.kill(training.run.facts.supervisor.pid, signal.SIGHUP if ends_worker else signal.SIGTERM)
    if ends_worker:
        processes.send(training.run.facts.workers[0].process, signal.SIGTERM)
    assert training.until_over().states == STOPPED


def test_run_ends_when_its_folder_is_removed(training: Followed) -> None:
    shutil.rmtree(training.run.dir)
    wait_until(lambda: not processes.tagged(training.run.id), "the workers to end")
    with pytest.raises(RunError, match="no longer exists"):
        training.run.request("stop")


def test_run_ends_when_its_folder_is_renamed_and_leaves_no_reserve(training: Followed) -> None:
    run_dir, run_id = training.run.dir, training.run.id
    renamed = run_dir.rename(run_dir.with_name("renamed"))
    run = Followed(Run.attach(renamed)).until_over().run
    assert run.facts.state is RunState.FAILED
    wait_until(lambda: not (renamed / EVENTS / RESERVE).exists(), "the reserve to be removed")
    wait_until(lambda: not processes.tagged(run_id), "the processes to end")
    assert f"{run_dir} was renamed to {renamed} while it trained" in str(run.facts.error)
    assert not run_dir.exists()


def test_failed_start_leaves_no_folder(runs_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("core.runs.directory.launch_supervisor", full)
    with pytest.raises(RunError, match="is full"):
        Run.start(make_spec("digits_mlp"), runs_root)
    assert list(runs_root.iterdir()) == []


def test_run_on_another_host_or_container_is_not_declared_lost(runs_root: Path, tmp_path: Path, monkeypatch) -> None:
    """The pids of another machine or container are meaningless here."""
    followed = train(played(tmp_path / "actor", steps=3), runs_root).until_left()
    log = followed.run.dir / "events" / "supervisor.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))  # as it was in mid-run
    here = processes.here()
    for place, state in (
        (here, RunState.LOST),
        (replace(here, boot="another"), RunState.LOST),
        (replace(here, host="elsewhere", boot="another"), RunState.STARTING),
        (replace(here, pid_namespace="pid:[1]"), RunState.STARTING),
    ):
        monkeypatch.setattr(processes, "here", lambda place=place: place)
        assert attached(followed.run.dir).facts.state is state


def test_clock_set_back_does_not_change_the_run_state(runs_root: Path, tmp_path: Path) -> None:
    followed = train(played(tmp_path / "actor", steps=3), runs_root)
    log = followed.run.dir / "events" / "supervisor.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    for event in events[-2:]:
        event["t"] -= 3600
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    assert Followed(Run.attach(followed.run.dir)).until_over().states == FINISHED
