"""Orphaned processes of runs are found by their tag and terminated; no other process is signalled.

A process is known by its pid and its start time.
"""

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from core.errors import RunError
from core.history import removal
from core.history.removal import OrphanedProcess, find_orphans
from core.runs.run import Run
from core.system import processes
from core.system.own_processes import SUPERVISOR
from core.system.terminate import TerminationResult, terminate
from tests.support.acting import CHILD, OWN_RUN, ProcView, abandon, fake_process, guards, played
from tests.support.running import Followed, kill_tagged, start
from tests.support.two_users import OTHER_UID
from tests.support.waiting import PATIENCE_S, wait_until

Launch = Callable[..., subprocess.Popen[bytes]]

RECORDS_SIGNALS = """
import signal, sys, time
def record(number, frame):
    with open(sys.argv[1], "a") as file:
        file.write(f"{number} ")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, record)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def terminate_all(targets: Sequence[OrphanedProcess], **options: Any) -> TerminationResult[OrphanedProcess]:
    """Terminate processes, by default without an end of the time that they have to react to SIGTERM."""
    return terminate(lambda: targets, **{"grace_s": PATIENCE_S, **options})


def let_grace_end(monkeypatch: pytest.MonkeyPatch, condition: Callable[[], object]) -> None:
    """Let the time of `terminate` stand still until this is so, and then be three seconds later."""
    clock = SimpleNamespace(monotonic=lambda: 3.0 if condition() else 0.0, sleep=time.sleep)
    monkeypatch.setattr("core.system.terminate.time", clock)


@pytest.fixture
def view(tmp_path: Path) -> ProcView:
    """A /proc with only the processes of this test."""
    return ProcView(tmp_path / "proc", f"TESTS_OF_TRAINYARD={tmp_path}")


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Starts processes with a run's tag and kills them after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*command: str, run_id: str = "", run_dir: Path | None = None, **options: object) -> subprocess.Popen[bytes]:
        tags = {processes.TAG: run_id} if run_id else {}
        if run_dir is not None:
            tags[processes.RUN_DIR] = str(run_dir)
        process = subprocess.Popen(command or ("sleep", "3600"), env={**os.environ, **tags}, **options)
        started.append(process)
        # Before exec, the child still shows this process's environment.
        own = Path(f"/proc/{process.pid}/environ")
        wait_until(lambda: not run_id or f"{processes.TAG}={run_id}".encode() in own.read_bytes(), "its own image")
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def abandoned(runs_root: Path, tmp_path: Path) -> Iterator[Followed]:
    """An abandoned run whose worker left a child in its own session."""
    followed = start(played(tmp_path / "actors", before=CHILD), runs_root).until_trained(1)
    yield abandon(followed)
    kill_tagged(followed.run.id)


def pids(found: list[OrphanedProcess]) -> list[int]:
    return [each.process.pid for each in found]


def as_found(process: subprocess.Popen[bytes], run_id: str) -> OrphanedProcess:
    """Return the process as `find` would return it."""
    return OrphanedProcess(
        process=processes.identify(process.pid), run_id=run_id, run_dir=None, name="sleep", command="sleep 3600",
        age_s=1.0, user="me", memory_bytes=None, why="Its run is over.",
    )


def test_active_run_has_no_orphans(runs_root: Path, tmp_path: Path, view: ProcView, launch: Launch) -> None:
    """Wherever the run's folder is, and whether or not its processes name it."""
    followed = start(played(tmp_path / "actors", before=CHILD), runs_root).until_trained(1)
    elsewhere = launch(run_id=followed.run.id)
    gone = launch(run_id=followed.run.id, run_dir=tmp_path / "gone" / followed.run.id)
    assert find_orphans([tmp_path], view.refresh()) == []
    assert find_orphans([runs_root], view.refresh()) == []
    assert elsewhere.poll() is gone.poll() is None
    followed.stop()


def test_stopped_guard_hides_no_orphans(runs_root: Path, tmp_path: Path, view: ProcView) -> None:
    followed = start(played(tmp_path / "actors", before=CHILD), runs_root).until_trained(1)
    (guard,) = guards(followed.run)
    guard.suspend()
    followed.kill_supervisor()
    followed.until_over()
    # The worker ends by its dead-man switch, and its child stays.
    wait_until(lambda: len(processes.tagged(followed.run.id)) == 1, "the worker to be gone")
    (found,) = find_orphans([], view.refresh())
    assert found.why == f"Run {followed.run.id} is over (lost)."
    stopped = f"The guard of run {followed.run.id} (pid {guard.pid}) is stopped (state T)"
    assert stopped in removal.remove(followed.run.dir).problem
    with pytest.raises(RunError, match=re.escape(stopped)):
        Run.resume(followed.run.dir)
    guard.resume()
    wait_until(lambda: not processes.tagged(followed.run.id), "the guard to terminate the processes that are left")


def test_orphan_of_deleted_run_folder_is_found(abandoned: Followed, view: ProcView) -> None:
    shutil.rmtree(abandoned.run.dir)
    (found,) = find_orphans([], view.refresh())
    assert found.run_dir is None
    assert found.why == f"The folder of run {abandoned.run.id} is gone, and it has no supervisor."


def test_run_folder_is_searched_under_roots(abandoned, runs_root, tmp_path, view, launch) -> None:
    process = launch(run_id=abandoned.run.id)
    unknown = launch(run_id="20010101-000000-unknown-0000")
    strange = launch(run_id="../runs", run_dir=tmp_path)
    found = {each.process.pid: each for each in find_orphans([tmp_path / "no-such", runs_root], view.refresh())}
    assert found[process.pid].run_dir == abandoned.run.dir
    assert found[process.pid].why == f"Run {abandoned.run.id} is over (lost)."
    assert found[unknown.pid].why == "There is no folder of run 20010101-000000-unknown-0000, and it has no supervisor."
    assert found[strange.pid].run_dir is None


def test_orphan_of_finished_run_is_found(runs_root: Path, tmp_path: Path, view: ProcView, launch: Launch) -> None:
    run = start(played(tmp_path / "actors", steps=3), runs_root).until_left().run
    process = launch(run_id=run.id, run_dir=run.dir)
    (found,) = find_orphans([], view.refresh())
    assert (found.process.pid, found.why) == (process.pid, f"Run {run.id} is over (finished).")
    assert found.user == pwd.getpwuid(os.getuid()).pw_name
    assert 0 <= found.age_s <= processes.describe(os.getpid()).age_s, "it is younger than this process"
    assert pids(find_orphans([])).count(process.pid) == 1, "it is found among all processes of the machine, too"


def test_shells_and_panels_started_inside_training_are_no_orphans(
    abandoned: Followed, runs_root: Path, tmp_path: Path, view: ProcView, launch: Launch, monkeypatch
) -> None:
    """A shell on a terminal, the terminal's server and its children; a second panel and its runs."""
    left = find_orphans([], view.refresh())
    assert len(left) == 1
    server = launch(
        sys.executable, "-c", "import os, pty; pty.spawn(['sh', '-c', 'setsid sleep 3600 & sleep 3600'])",
        run_id=abandoned.run.id, run_dir=abandoned.run.dir, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: len(psutil.Process(server.pid).children(recursive=True)) >= 3, "the shell's children")
    panel = launch(
        "trainyard", "-c", "import time; time.sleep(3600)", run_id=abandoned.run.id, executable=sys.executable
    )
    with monkeypatch.context() as patch:
        patch.setenv(processes.TAG, abandoned.run.id)
        patch.setenv(processes.RUN_DIR, str(abandoned.run.dir))
        second = start(played(tmp_path / "actors", before=CHILD), runs_root)
    second.until_trained(1)
    assert pids(find_orphans([runs_root], view.refresh())) == pids(left)
    assert panel.poll() is server.poll() is None
    second.stop()
    for child in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # the shell's exit may terminate another child first
            child.kill()


def test_similar_command_line_is_never_signalled(abandoned: Followed, view: ProcView, launch: Launch) -> None:
    alike = launch("sleep", "3600")
    worded = launch("sh", "-c", f"sleep 3600; : {processes.TAG}={abandoned.run.id}", start_new_session=True)
    other_run = launch(run_id=f"{abandoned.run.id}0", run_dir=abandoned.run.dir)
    found = [each for each in find_orphans([], view.refresh()) if each.run_id == abandoned.run.id]
    assert len(found) == 1
    untagged = [as_found(process, abandoned.run.id) for process in (alike, worded, other_run)]
    outcome = terminate_all([*found, *untagged])
    assert [each.target for each in outcome.ended] == found
    assert [each.target for each in outcome.left] == untagged
    assert {each.why for each in outcome.left} == {
        "It no longer has the run's tag, or belongs to another user, so it was not ended."
    }
    assert alike.poll() is worded.poll() is other_run.poll() is None
    os.killpg(worded.pid, signal.SIGKILL)


def test_recycled_pid_is_never_signalled(view: ProcView, launch: Launch) -> None:
    """The pid now belongs to another process, even if that process has the same tag."""
    process = launch(run_id="20010101-000000-recycled-0000")
    (found,) = find_orphans([], view.refresh())
    assert found.process.pid == process.pid
    earlier = replace(found, process=replace(found.process, created=found.process.created - 1))
    outcome = terminate_all([earlier])
    assert (outcome.ended, outcome.left) == ((), ())  # the process with the earlier start time has exited
    assert process.poll() is None


@pytest.mark.two_users
def test_other_users_fake_supervisor_does_not_hide_orphans(abandoned: Followed, view: ProcView, launch: Launch) -> None:
    """Otherwise `sweep` would find nothing, and `remove` would remove the folder of living processes."""
    theirs: dict[str, Any] = {"user": OTHER_UID, "group": OTHER_UID}
    supervisor = ("sh", "-c", "read line", SUPERVISOR, str(abandoned.run.dir))
    fake = launch(*supervisor, **theirs, stdin=subprocess.PIPE)
    tagged = launch(run_id=abandoned.run.id, run_dir=abandoned.run.dir, **theirs)
    (found,) = find_orphans([], view.refresh())
    assert found.run_id == abandoned.run.id
    assert found.process.pid not in {fake.pid, tagged.pid}
    assert f"still running: pid {found.process.pid} (sleep)." in removal.why_not(abandoned.run.dir)
    assert [each.target for each in terminate_all([found]).ended] == [found]
    assert removal.why_not(abandoned.run.dir) == ""  # the other user's process keeps nothing from being removed
    os.chown(abandoned.run.dir, OTHER_UID, OTHER_UID)  # but it does if the run is theirs, and root removes it
    fake.kill()
    fake.wait()
    assert f"still running: pid {tagged.pid} (sleep)." in removal.why_not(abandoned.run.dir)
    assert tagged.poll() is None
    # The same command line under one's own user id counts: it may be a supervisor in a container.
    launch(*supervisor, stdin=subprocess.PIPE)
    launch(run_id=abandoned.run.id, run_dir=abandoned.run.dir)
    assert find_orphans([], view.refresh()) == []


def test_process_with_other_uid_in_proc_is_never_signalled(tmp_path: Path, launch: Launch) -> None:
    process = launch(run_id="20010101-000000-another-0000")
    uid = os.getuid()
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    fake_process(own, process.pid)
    before = f"Uid:\t{uid}\t{uid}".encode()
    fake_process(theirs, process.pid, status={before: f"Uid:\t{uid + 1}\t{uid + 1}".encode()})
    (found,) = find_orphans([], own)
    assert find_orphans([], theirs) == []
    outcome = terminate_all([found], proc=theirs)
    assert [each.target for each in outcome.left] == [found]
    assert process.poll() is None
    assert [each.target for each in terminate_all([found], proc=own).ended] == [found]


def test_process_stuck_in_kernel_after_sigkill_is_not_signalled_again(tmp_path, launch, monkeypatch) -> None:
    notes = tmp_path / "signals"
    process = launch(
        sys.executable, "-c", RECORDS_SIGNALS, str(notes), run_id="20010101-000000-stuck-0000", stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    proc = tmp_path / "fake"
    asleep = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: b") S " in asleep.read_bytes(), "it to sleep")
    waiting = {b") S ": b") D "}
    fake_process(proc, process.pid, stat=waiting, status={b"ShdPnd:\t0000000000000000": b"ShdPnd:\t0000000000000100"})
    (found,) = find_orphans([], proc)
    outcome = terminate_all([found], proc=proc)
    assert outcome.ended == ()
    assert "waits inside the kernel (state D), where no signal reaches it" in outcome.left[0].why
    assert process.poll() is None
    assert not notes.exists()
    # A process in a temporary wait, such as for a disk, is still killed.
    shutil.rmtree(proc)
    fake_process(proc, process.pid, stat=waiting)
    let_grace_end(monkeypatch, lambda: notes.exists() and notes.read_text())
    assert [each.signal for each in terminate_all([found], grace_s=2, proc=proc).ended] == ["SIGKILL"]
    assert notes.read_text().split() == [str(int(signal.SIGTERM))]


def test_process_that_exits_meanwhile_is_no_error(view: ProcView, launch: Launch) -> None:
    first, second = (launch(run_id="20010101-000000-brief-0000") for _ in range(2))
    found = find_orphans([], view.refresh())
    assert sorted(pids(found)) == sorted([first.pid, second.pid])
    first.kill()
    first.wait()
    outcome = terminate_all(found)
    assert [each.target.process.pid for each in outcome.ended] == [second.pid]
    assert outcome.left == ()
    assert terminate_all(found) == TerminationResult()
    assert find_orphans([], view.path) == []  # the links of exited processes remain and are broken


# -- single processes ------------------------------------------------------------------------------


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
