"""Processes are identified by pid and start time, and found by their run tag."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace

from core.system import processes
from tests.support.acting import OWN_RUN
from tests.support.waiting import PATIENCE_S, wait_until


def test_zombie_process_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    identity = processes.identify(sleeper.pid)
    assert processes.is_alive(identity)
    sleeper.kill()
    wait_until(lambda: not processes.is_alive(identity), "the zombie to count as dead")
    assert sleeper.returncode is None  # not waited for, so it is a zombie
    assert processes.identify(sleeper.pid) is None


def test_reused_pid_is_not_alive_and_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    identity = processes.identify(sleeper.pid)
    other = replace(identity, created=identity.created - 1)
    assert not processes.is_alive(other)
    assert not processes.send(other, signal.SIGKILL)
    assert processes.is_alive(identity)
    assert processes.send(identity, signal.SIGTERM)
    assert sleeper.wait(PATIENCE_S) == -signal.SIGTERM
    assert not processes.send(identity, signal.SIGTERM)


def test_signalling_that_the_system_forbids_is_not_an_error(sleeper: subprocess.Popen[bytes], monkeypatch) -> None:
    """Some containers forbid opening a process; this must not make the end of a run fail."""
    identity = processes.identify(sleeper.pid)

    def forbidden(pid: int) -> int:
        raise PermissionError(pid)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", forbidden)
        assert not processes.send_tagged(identity, OWN_RUN, signal.SIGKILL)
    assert processes.is_alive(identity)
    assert processes.send_tagged(identity, OWN_RUN, signal.SIGKILL)


def test_tag_matches_whole_run_names_only(sleeper: subprocess.Popen[bytes]) -> None:
    assert [process.pid for process in processes.tagged(OWN_RUN)] == [sleeper.pid]
    assert processes.tagged(OWN_RUN[:-1]) == processes.tagged(f"{OWN_RUN}1") == []


def test_tag_in_a_command_line_does_not_match() -> None:
    with subprocess.Popen(["sh", "-c", f"sleep 600; : {processes.TAG}={OWN_RUN}-2"], start_new_session=True) as process:
        try:
            assert processes.tagged(f"{OWN_RUN}-2") == []
        finally:
            os.killpg(process.pid, signal.SIGKILL)
