"""`trainyard sweep` lists the orphans of ended runs and terminates them on request."""

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.cli import __main__
from core.cli.commands import remove
from core.system import processes
from core.system.processes import ProcessId
from tests.support.acting import CHILD, ProcView, abandon, played
from tests.support.commands import Call
from tests.support.running import Followed, kill_tagged, start
from tests.support.waiting import wait_until

DROPS_ITS_TAG = (
    "subprocess.Popen([sys.executable, '-c', 'import os, signal, time; "
    'signal.signal(signal.SIGTERM, lambda *_: os.execve("/bin/sleep", ["sleep", "3600"], {})); '
    "print(flush=True); time.sleep(3600)'], start_new_session=True, stdout=subprocess.PIPE).stdout.read(1)"
)
MULTIPLIES = (
    "subprocess.Popen([sys.executable, '-c', 'import os, signal, sys, time\\n"
    "def again(*_):\\n    if os.fork(): os._exit(0)\\n    signal.signal(signal.SIGTERM, signal.SIG_DFL)\\n"
    "signal.signal(signal.SIGTERM, again); "
    "print(flush=True); time.sleep(3600)'], start_new_session=True, stdout=subprocess.PIPE).stdout.read(1)"
)
"""On SIGTERM, start a child process and exit."""


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcView:
    """Show the command only processes of this test; otherwise it would terminate orphans of any run."""
    made = ProcView(tmp_path / "proc", f"TESTS_OF_TRAINYARD={tmp_path}")
    monkeypatch.setattr(remove, "PROC", made.path)
    return made


@pytest.fixture
def sweep(call: Call, view: ProcView) -> Call:
    """A function that calls the command."""

    def run(*arguments: str) -> tuple[int, str, str]:
        view.refresh()
        return call("sweep", *arguments)

    return run


@pytest.fixture
def leave(runs_root: Path, tmp_path: Path) -> Iterator[Callable[[str], Followed]]:
    """Return a function that starts a run whose worker executes the given code, and abandons the run."""
    runs: list[Followed] = []

    def abandoned(before: str) -> Followed:
        runs.append(start(played(tmp_path / "actors", before=before), runs_root).until_trained(1))
        return abandon(runs[-1])

    yield abandoned
    for each in runs:
        kill_tagged(each.run.id)


def test_sweep_without_orphans_prints_one_sentence(sweep: Call) -> None:
    assert sweep() == (0, "No processes are left from runs that are over.\n", "")
    assert sweep("--end") == (0, "No processes are left from runs that are over.\n", "")
    code, out, _ = sweep("--json")
    assert (code, json.loads(out)) == (0, {"leftovers": [], "ended": [], "left": []})


def test_sweep_lists_orphans_and_terminates_them_when_asked_to(sweep: Call, leave: Callable[[str], Followed]) -> None:
    run = leave(f"{CHILD}; {CHILD}").run
    left = {process.pid: process for process in processes.tagged(run.id)}
    assert len(left) == 2
    code, out, err = sweep()
    assert code == 0
    head, headings, *rows = out.splitlines()
    assert head == f"Run {run.id} is over (lost). Processes left:"
    assert headings.split() == ["PID", "AGE", "MEMORY", "RUN", "COMMAND"]
    assert {int(row.split()[0]) for row in rows} == left.keys()
    for row in rows:
        words = row.split()
        assert words[2] in {"s", "min"}
        assert words[4:] == ["MB", run.id, "sleep", "3600"]
    words = "No process was terminated: there is no terminal to ask on. `trainyard sweep --end` terminates them."
    assert err == f"trainyard: {words}\n"
    code, out, err = sweep("--json")
    document = json.loads(out)
    assert (code, err, document["ended"]) == (0, "", [])
    assert {each["pid"]: each["created"] for each in document["leftovers"]} == {
        process.pid: process.created for process in left.values()
    }
    for found in document["leftovers"]:
        assert (found["run"], found["dir"]) == (run.id, str(run.dir))
        assert (found["name"], found["command"]) == ("sleep", "sleep 3600")
        assert found["memory_bytes"] > 0
        assert found["age_s"] >= 0
        assert found["why"] == f"Run {run.id} is over (lost)."
    assert all(map(processes.is_alive, left.values()))
    code, out, err = sweep("--json", "--end")
    document = json.loads(out)
    assert (code, err, document["left"]) == (0, "", [])
    assert sorted(document["ended"], key=lambda each: each["pid"]) == [
        {"pid": pid, "run": run.id, "name": "sleep", "command": "sleep 3600", "signal": "SIGTERM"}
        for pid in sorted(left)
    ]
    assert processes.tagged(run.id) == []


def wait_for_signals(monkeypatch: pytest.MonkeyPatch, has_acted: Callable[[], bool]) -> None:
    """Let the command go on after SIGTERM only when a process has done what it does then, and not kill it before."""
    send = processes.send_tagged

    def send_and_wait(process: ProcessId, run_id: str, number: signal.Signals, *proc: Path) -> bool:
        is_sent = send(process, run_id, number, *proc)
        if number is signal.SIGTERM:
            wait_until(has_acted, "the process to act on SIGTERM")
        return is_sent

    monkeypatch.setattr(processes, "send_tagged", send_and_wait)


def test_orphan_that_cannot_be_terminated_is_reported_with_exit_code_1(sweep, leave, monkeypatch) -> None:
    run = leave(DROPS_ITS_TAG).run
    (process,) = processes.tagged(run.id)
    wait_for_signals(monkeypatch, lambda: not processes.is_of_run(process.pid, run.id))
    code, out, err = sweep("--end")
    assert code == 1
    assert "Terminated" not in out
    assert err.startswith(f"trainyard: Not terminated: pid {process.pid} python")
    assert f" of run {run.id}, which is still running. It no longer has the run's tag" in err
    assert processes.is_alive(process)
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not processes.is_alive(process), "it to end")


def test_process_started_by_a_terminating_orphan_is_also_terminated(sweep, view, leave, monkeypatch) -> None:
    run = leave(MULTIPLIES).run
    (process,) = processes.tagged(run.id)
    wait_for_signals(monkeypatch, lambda: not processes.is_alive(process))
    monkeypatch.setattr(remove.removal, "find_orphans", _seeing_all(view))
    code, out, _ = sweep("--end")
    assert code == 0
    for line in out.splitlines()[-2:]:
        assert re.fullmatch(rf"Terminated pid \d+ python\S* of run {run.id} with SIGTERM\.", line)
    assert processes.tagged(run.id) == []


def _seeing_all(view: ProcView) -> Callable[..., list]:
    """Refresh the process view, which is a snapshot, before each search."""
    find = remove.removal.find_orphans
    return lambda roots, proc: find(roots, view.refresh())


def test_sweep_asks_for_confirmation_on_a_terminal(view, leave, runs_root, monkeypatch) -> None:
    """Any answer but yes keeps the orphans: an empty line, no, or end of input."""
    run = leave(CHILD).run
    view.refresh()
    for answer, ends in (("\n", False), ("n\n", False), ("\x04", False), ("Yes\n", True)):
        shown = _asked(answer, runs_root, monkeypatch)
        assert f"Run {run.id} is over (lost). Processes left:" in shown
        assert "Terminate them? [y/N] " in shown
        assert ("Terminated pid" in shown) is ends
        assert (processes.tagged(run.id) == []) is ends


def _asked(answer: str, runs_root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a terminal shows when this answer is typed."""
    keyboard, terminal = os.openpty()
    os.write(keyboard, answer.encode())
    with (
        os.fdopen(terminal, "r", closefd=False) as stdin,
        os.fdopen(terminal, "w") as stdout,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(sys, "stdout", stdout)
        assert __main__.main(["sweep", "--runs", str(runs_root)]) == 0
        stdout.flush()
    shown = b""
    with contextlib.suppress(OSError):  # the end of it: the other end is closed, and what was written may arrive later
        while part := os.read(keyboard, 65536):
            shown += part
    os.close(keyboard)
    return shown.decode()


def test_sweep_without_proc_reports_that_processes_are_invisible(call: Call, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(remove, "PROC", tmp_path / "none")
    code, out, err = call("sweep", "--end")
    assert (code, out) == (2, "")
    assert "so processes that runs have left behind cannot be seen" in err
    assert err.count("\n") == 1
