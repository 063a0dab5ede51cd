"""Where a log-out ends processes: what systemd-logind is asked, the scope of a run, and the warnings."""

import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.queue import control
from core.runs.facts import RunState
from core.runs.run import Run
from core.system import logout
from core.system.logout import LogOut, at_logout, logout_warning, start_in_background
from tests.support.acting import played
from tests.support.commands import call
from tests.support.queueing import Queue, stop
from tests.support.running import Followed, train
from tests.support.session_bus import SYSTEM_BUS_VARIABLE, LoginService, UserManager, session_bus
from tests.support.waiting import PATIENCE_S, wait_until

SESSION = "0::/user.slice/user-0.slice/session-2.scope\n"
BELOW_MANAGER = "0::/user.slice/user-0.slice/user@0.service/app.slice/app-gnome-1.scope\n"
HYBRID = "9:pids:/\n1:name=systemd:/user.slice/user-0.slice/session-c3.scope\n0::/\n"
OUTSIDE = ("0::/system.slice/ssh.service\n", "0::/\n", "3:name=systemd:/docker/0a1b\n", "")
MAY_END = "Logging out may end your runs"
"""How the warning begins for a user who does not linger."""


def properties(
    *, kills: bool, lingers: bool | None, excluded: tuple[str, ...] = ("nobody",), only: tuple[str, ...] = ()
) -> dict[str, tuple[str, object]]:
    """What systemd-logind answers. `lingers`: None if it does not know the user."""
    known = {
        "KillUserProcesses": ("b", kills), "KillExcludeUsers": ("as", [*excluded]), "KillOnlyUsers": ("as", [*only]),
    }
    return known if lingers is None else {**known, "Linger": ("b", lingers)}


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)  # so that systemd-run asks this bus
    # The bus and its services may take their time.
    monkeypatch.setattr(logout, "IN_SCOPE", logout.IN_SCOPE.replace(f"{logout.TRY_S:g}", f"{PATIENCE_S:g}", 1))
    for limit in ("ASK_S", "TRY_S"):
        monkeypatch.setattr(logout, limit, PATIENCE_S)
    with session_bus(tmp_path) as address:
        yield address


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "proc" / "self" / "cgroup"
    path.parent.mkdir(parents=True)
    path.write_text(SESSION)
    monkeypatch.setattr(logout, "PROC", tmp_path / "proc")
    return path


def asked_again() -> LogOut:
    at_logout.cache_clear()
    return at_logout()


@pytest.fixture
def no_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logout, "SCOPE", ("false",))


def test_only_a_session_and_the_users_manager_are_asked_about(bus: str, cgroup: Path, no_scope: None) -> None:
    """The user of the tests is named root, whom systemd-logind spares unless another is named to be spared."""
    rows = (
        (SESSION, {"kills": False, "lingers": False}, LogOut()),
        (SESSION, {"kills": True, "lingers": True}, LogOut(ends_session=True)),
        (HYBRID, {"kills": True, "lingers": False}, LogOut(ends_session=True, ends_manager=True)),
        (SESSION, {"kills": True, "lingers": None}, LogOut(ends_session=True, ends_manager=True)),
        (SESSION, {"kills": True, "lingers": False, "excluded": ("root", "anna")}, LogOut()),
        (SESSION, {"kills": True, "lingers": False, "excluded": ()}, LogOut()),
        (SESSION, {"kills": True, "lingers": True, "only": ("anna",)}, LogOut()),
        (SESSION, {"kills": False, "lingers": True, "only": ("anna", "root")}, LogOut(ends_session=True)),
        (BELOW_MANAGER, {"kills": False, "lingers": False}, LogOut(ends_manager=True)),
        (BELOW_MANAGER, {"kills": True, "lingers": True}, LogOut()),
    )
    for text, given, expected in rows:
        cgroup.write_text(text)
        with LoginService(bus, properties(**given)):
            assert asked_again() == expected, (text, given)
            assert at_logout() is at_logout()
    with LoginService(bus, properties(kills=True, lingers=False)) as service:
        for text in OUTSIDE:
            cgroup.write_text(text)
            assert asked_again() == LogOut()
    assert service.asked == []


def test_nothing_happens_where_nothing_answers(bus: str, cgroup: Path, monkeypatch, tmp_path: Path) -> None:
    assert asked_again() == LogOut(), "the bus has no systemd-logind"
    with LoginService(bus, {}, silent=True) as service, pytest.MonkeyPatch.context() as patch:
        # The time for all questions is over when the first one has been asked.
        patch.setattr(logout, "time", SimpleNamespace(monotonic=itertools.count(step=logout.ASK_S).__next__))
        assert asked_again() == LogOut()
        wait_until(lambda: service.asked, "the question to arrive")
    for address in (f"unix:path={tmp_path}/nothing", "nonsense", "tcp:host=localhost,port=1"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SYSTEM_BUS_VARIABLE, address)
            assert asked_again() == LogOut(), address
    assert logout_warning() == ""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-run") is None, reason="systemd-run is not installed")
def test_supervisor_and_waiting_process_are_started_in_scopes(bus: str, cgroup: Path, tmp_path: Path) -> None:
    """The real systemd-run asks a stand-in of systemd, then becomes the process: its id is that of the guard."""
    queue = Queue(tmp_path)
    with LoginService(bus, properties(kills=True, lingers=True)), UserManager(bus) as manager:
        assert "--scope" in asked_again().scope
        assert logout_warning() == ""
        tried = len(manager.scopes)
        run = train(played(tmp_path, name="mine", steps=3), queue.runs_root)
        assert run.states == [RunState.STARTING, RunState.RUNNING, RunState.RELEASING, RunState.FINISHED]
        assert len(manager.scopes) == tried + 2, "one to try it, and that of the run"
        assert manager.scopes[-1]["PIDs"] == [run.run.facts.guard.pid]
        assert manager.scopes[-1]["Description"] == "Trainyard"
        busy = queue.start()
        waiting = queue.add("waiting")
        assert manager.scopes[-1]["PIDs"] == [waiting.run.facts.waiter.pid]
        control.hold(waiting.run.dir)
        stop(busy)
    # The manager does not answer any more: what is started then is started without a scope.
    control.let_go(waiting.run.dir)
    assert waiting.until_over().state is RunState.FINISHED
    last = queue.add("last")
    assert last.until_over().state is RunState.FINISHED


def test_process_in_a_scope_keeps_its_id_its_output_and_its_arguments(bus, cgroup, tmp_path, monkeypatch) -> None:
    """By a small program in place of systemd-run, which is not installed everywhere. It knows no OOMPolicy."""
    program = tmp_path / "bin" / "systemd-run"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$$ $*" >> {tmp_path}/asked\n'
        'case "$*" in *OOMPolicy*) exit 1;; esac\n'
        'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    with LoginService(bus, properties(kills=True, lingers=False)):
        asked_again()
    go = tmp_path / "go"
    prints = "import os, sys, time; print(os.getpid(), os.getpgid(0) != os.getpid(), sys.argv[1:], flush=True)"
    code = f"{prints}; list(iter(lambda: time.sleep(0.01) or os.path.exists({str(go)!r}), True))"
    with (tmp_path / "printed").open("w") as printed:
        started = start_in_background(
            [sys.executable, "-c", code, "a b", "$HOME", "--user", "'"], printed.fileno(), survives_logout=True
        )
    text = wait_until((tmp_path / "printed").read_text, "what it prints")
    go.touch()
    assert text == f"{started.pid} True ['a b', '$HOME', '--user', \"'\"]\n"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 5, "three to find the options that are known, one before the start, and the start"
    assert asked[-1].startswith(f"{started.pid} --user --scope --quiet --collect --no-ask-password ")


@pytest.mark.slow
def test_warnings_say_what_helps(bus: str, cgroup: Path, tmp_path: Path, no_scope: None, capsys) -> None:
    queue = Queue(tmp_path)
    words = ("run", queue.recipe, "--devices", "cpu:0", "--epochs", 1, "--runs", queue.runs_root)
    with LoginService(bus, properties(kills=True, lingers=False)):
        asked_again()
    code, out, err = call(capsys, *words, "--detach")
    assert code == 0
    assert f"{MAY_END}, also queued ones, because systemd ends your processes then." in err
    assert "loginctl enable-linger" in err
    assert Followed(Run.attach(queue.runs_root / out.strip())).until_over().state is RunState.FINISHED
    assert MAY_END not in call(capsys, *words)[2], "who waits for its end does not log out"
    with LoginService(bus, properties(kills=True, lingers=True)):
        asked_again()
    assert "`systemd-run --user --scope` cannot start them outside of it" in logout_warning()
