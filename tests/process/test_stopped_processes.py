"""A stopped process of a run (state T) is named with its state, and --force gets past it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from core.runs import stopped
from core.runs.facts import RunFacts, RunState
from core.runs.run import Run
from core.schema.settings import StopTimeouts
from core.system import processes, procfs
from tests.support.commands import in_a_process
from tests.support.running import FOREVER, Followed, make_spec, source_spec, start
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def followed(runs_root: Path, endless: str) -> Followed:
    spec = make_spec(
        endless, epochs=FOREVER, checkpoints={"unit": "never"},
        stop_timeouts=StopTimeouts(ask_s=0.3, interrupt_s=0.3, terminate_s=0.3),
    )
    return start(spec, runs_root).until_trained(1)


def about(name: str, followed: Followed, *more: str) -> subprocess.Popen[str]:
    """Start a command about a run, in a process of its own."""
    return in_a_process(name, followed.run.id, "--runs", followed.run.dir.parent, *more)


def interrupt(command: subprocess.Popen[str]) -> None:
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=PATIENCE_S)


def stop_process(process: processes.ProcessId) -> int:
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: (found := procfs.stat(process.pid)) and found.state == "T", "it to be stopped")
    return process.pid


def only_helper(facts: RunFacts) -> processes.ProcessId | None:
    """Return the child of a supervisor that is no worker; None while those that it asks for the software are there."""
    children = {*procfs.children(facts.supervisor.pid)} - {each.process.pid for each in facts.workers.values()}
    return processes.identify(children.pop()) if len(children) == 1 else None


@pytest.mark.slow
def test_stop_names_a_stopped_supervisor_and_force_continues_it(followed: Followed) -> None:
    pid = stop_process(followed.run.facts.supervisor)
    words = (
        f"trainyard: The run's supervisor (pid {pid}) is stopped (state T), so it answers no request. Continue it "
        f"(kill -CONT {pid}), or end the run: trainyard stop {followed.run.id} --force\n"
    )
    for name in ("stop", "save"):
        with about(name, followed) as waiting:
            assert waiting.stderr.readline() == words
            interrupt(waiting)
    assert followed.poll().run.facts.stopped_processes == words.removeprefix("trainyard: ").strip()
    assert followed.state is RunState.RUNNING
    with pytest.raises(ValueError, match="is stopped"):
        Run.resume(followed.run.dir)
    with about("stop", followed, "--force") as forcing:
        _, err = forcing.communicate(timeout=PATIENCE_S)
    assert err.startswith(f"trainyard: The run's supervisor (pid {pid}) was stopped and was continued.\n")
    assert forcing.returncode == 0
    assert followed.until_over().state is RunState.STOPPED
    assert followed.run.facts.stopped_processes is None


def test_supervisor_that_cannot_be_continued_is_killed(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a debugger holds."""
    pid = stop_process(followed.run.facts.supervisor)
    send = processes.send
    monkeypatch.setattr(processes, "send", lambda who, number: number is signal.SIGCONT or send(who, number))
    assert stopped.continue_supervisor(followed.run.dir, followed.run.facts) == (
        f"The run's supervisor (pid {pid}) was stopped (state T), could not be continued and was killed."
    )
    assert followed.until_over().state is RunState.LOST
    wait_until(lambda: not processes.tagged(followed.run.id), "the guard to end the workers")


def test_stopped_worker_is_named_and_killed_by_the_stop(followed: Followed) -> None:
    pid = stop_process(followed.run.facts.workers[0].process)
    words = f"trainyard: Worker 0 (pid {pid}) is stopped (state T), so it neither trains nor answers requests."
    with about("pause", followed) as pausing:
        assert pausing.stderr.readline().startswith(words)
        assert f"Continue it (kill -CONT {pid}), or stop the run." in str(followed.poll().run.facts.stopped_processes)
        interrupt(pausing)
    assert followed.stop().state is RunState.STOPPED
    assert [step.name for step in followed.run.facts.stop_steps][-1] == "SIGKILL"


def test_stopped_guard_is_named_and_leaves_with_its_run(followed: Followed) -> None:
    pid = stop_process(followed.run.facts.guard)
    assert f"(pid {pid}) is stopped (state T), so it cannot" in str(followed.poll().run.facts.stopped_processes)
    followed.run.request("stop")
    assert followed.until_left().state is RunState.STOPPED


def test_stopped_helper_ends_with_its_killed_supervisor(runs_root: Path, tmp_path: Path) -> None:
    """The process that reads the measurements of a script has no tag: only the guard, its parent then, knows it."""
    source = "import time\nprint('step 1 loss 0.5', flush=True)\ntime.sleep(600)\n"
    followed = start(source_spec(tmp_path, source), runs_root).until_trained(1)
    identity = wait_until(lambda: only_helper(followed.run.facts), "the helper to be the only other child")
    stop_process(identity)
    followed.kill_supervisor()
    wait_until(lambda: not processes.is_alive(identity), "the guard to let the helper end")
    assert followed.until_left().state is RunState.LOST
    assert processes.tagged(followed.run.id) == []
