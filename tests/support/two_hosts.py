"""A run over this machine and a host of the ssh server for tests: its devices, its part there, and their processes."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.catalog.strategies import strategy_of
from core.language import Message
from core.runs.facts import RunState
from core.schema.event_kinds import Verdict
from core.schema.event_log import Log
from core.schema.spec import RunSpec
from core.system.own_processes import SUPERVISOR
from tests.support.running import Followed
from tests.support.ssh_server import SshServer, add_host
from tests.support.waiting import wait_until

AWAY = "one/cpu:1"


def over_hosts(spec: RunSpec, strategy: str = "ddp", away: str = AWAY) -> RunSpec:
    """Return the spec on a device here and one of a host."""
    allowed = strategy_of(replace(spec, strategy=strategy)).needs_addresses
    return replace(spec, devices=("cpu:0", away), strategy=strategy, allow_open_ports=allowed)


def parts(server: SshServer) -> list[Path]:
    """Return the run directories on the host."""
    return list(server.folder.glob("one/.local/share/trainyard/runs/2*"))


@pytest.fixture
def added_host(server: SshServer) -> Iterator[None]:
    """Add the host, and remove parts whose run was lost: the user of that machine would delete them."""
    add_host()
    yield
    for part in parts(server):
        shutil.rmtree(part)


def processes_there(server: SshServer) -> list[psutil.Process]:
    """Return the processes of parts on the host."""
    names = {part.name for part in parts(server)}
    return [each for each in psutil.process_iter() if any(name in word for word in _words(each) for name in names)]


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):  # it has ended
        return process.cmdline()
    return []


def worker_there(server: SshServer) -> psutil.Process:
    """Return a worker on the host, when there is one: other ranks may train before it has started."""

    def found() -> list[psutil.Process]:
        return [each for each in processes_there(server) if "boot.py" in " ".join(_words(each))]

    return wait_until(found, "a worker on the host")[0]


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, also where the system's first process takes its time to wait for it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def cuts(run: Followed) -> int:
    """Return how many cuts of the connection the run has recorded."""
    return sum(
        event["kind"] == "notice" and "was cut for" in Message.read(event["text"]) for event in Log(run.run.dir).read()
    )


def supervisors_there(server: SshServer) -> list[psutil.Process]:
    """Return the supervisor on the host: the child of its guard, which has the same command line."""
    with contextlib.suppress(psutil.Error):  # one has ended
        # The shell that starts the supervisor has its words, too.
        found = [each for each in processes_there(server) if SUPERVISOR in each.cmdline() and each.name() != "sh"]
        return [each for each in found if each.ppid() in {other.pid for other in found}]
    return []


@contextlib.contextmanager
def unreachable(server: SshServer) -> Iterator[None]:
    """Cut all connections to the host, and let no new one be made in the block: the network is gone."""
    ssh = server.folder / "bin" / "ssh"
    text = ssh.read_text()
    ssh.write_text("#!/bin/sh\nexit 255\n")
    try:
        for each in server.sessions():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended with the session that it belongs to
                each.kill()
        yield
    finally:
        ssh.write_text(text)


def descent_losses() -> list[float]:
    """Return the losses of the programs for several ranks that fit a weight to three by gradient descent, on one."""
    weight, losses = 0.0, []
    for _ in range(20):
        losses.append(sum((weight * x - 3 * x) ** 2 for x in range(1, 9)) / 8)
        weight -= 0.01 * sum(2 * x * (weight * x - 3 * x) for x in range(1, 9)) / 8
    return losses


def stop_with_every_step(run: Followed) -> None:
    """Stop a run, and check that its curve has each step once."""
    run.stop()
    assert run.states[-1] is RunState.STOPPED, run.run.facts
    steps = run.run_series.metrics["loss"].steps
    assert steps.tolist() == list(range(1, len(steps) + 1))


def follows_the_curve_of(alone: Followed, run: Followed, away: str) -> None:
    """Check that a run on `cpu:0` and one device of a host has the losses of a run on one device, and its own facts."""
    assert run.states[-1] is RunState.FINISHED, run.run.facts
    assert run.losses() == pytest.approx(alone.losses(), rel=1e-5, abs=1e-6)
    facts, host = run.run.facts, away.partition("/")[0]
    assert {rank: (each.devices, each.host, each.exit_code) for rank, each in facts.workers.items()} == {
        0: (("cpu:0",), "", 0),
        1: ((away,), host, 0),
    }
    verdicts = {name: each.verdict for name, each in facts.releases.items()}
    assert verdicts == dict.fromkeys(("cpu:0", away), Verdict.RELEASED)
    assert len(run.run_series.memory[away]) > 0
