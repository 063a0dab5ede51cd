"""Processes are told apart by pid and create time, and found by their tag."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.system import processes
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN_RUN = f"run-{os.getpid()}"
"""The whole machine is looked through for it: another test run beside this one has another."""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], env={**os.environ, processes.TAG: OWN_RUN}) as process:
        yield process
        process.kill()


def test_a_process_is_alive_until_it_is_a_zombie(sleeper: subprocess.Popen[bytes]) -> None:
    identity = processes.identify(sleeper.pid)
    assert identity
    assert processes.is_alive(identity)
    sleeper.kill()
    wait_until(lambda: not processes.is_alive(identity), what="the zombie to count as dead")
    assert sleeper.returncode is None  # nobody has waited for it: it is a zombie
    assert processes.identify(sleeper.pid) is None


def test_another_process_with_the_pid_is_neither_alive_nor_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    identity = processes.identify(sleeper.pid)
    assert identity
    other = replace(identity, created=identity.created - 1)
    assert not processes.is_alive(other)
    assert not processes.send(other, signal.SIGKILL)
    assert processes.is_alive(identity)
    assert processes.send(identity, signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM
    assert not processes.send(identity, signal.SIGTERM)


def test_where_the_system_lets_nobody_be_signalled_nobody_is_and_that_is_no_error(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some containers do not let a process be opened; the run's end must not fail for it."""
    identity = processes.identify(sleeper.pid)
    assert identity
    wait_until(lambda: processes.tagged(OWN_RUN), what="the sleeper to have become itself")

    def forbidden(pid: int) -> int:
        raise PermissionError(pid)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", forbidden)
        assert not processes.send_tagged(identity, OWN_RUN, signal.SIGKILL)
        assert processes.end_tagged(OWN_RUN, signal.SIGKILL) == []
    assert processes.is_alive(identity)
    assert processes.send_tagged(identity, OWN_RUN, signal.SIGKILL)


def test_the_tag_finds_whole_names_only(sleeper: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: processes.tagged(OWN_RUN), what="the sleeper to have become itself")
    assert [process.pid for process in processes.tagged(OWN_RUN)] == [sleeper.pid]
    assert processes.tagged(OWN_RUN[:-1]) == processes.tagged(f"{OWN_RUN}1") == []


def test_a_similar_command_line_is_not_a_tag() -> None:
    with subprocess.Popen(["sh", "-c", f"sleep 600; : {processes.TAG}=run-2"], start_new_session=True) as process:
        try:
            assert processes.tagged("run-2") == []
        finally:
            os.killpg(process.pid, signal.SIGKILL)
