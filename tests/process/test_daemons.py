"""A process that clears its environment, and with it the run's tag, is still found, named and terminated."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.devices.cpu import CORES_VARIABLE
from core.history.index import directories
from core.runs.facts import RunState
from core.runs.run import Run
from core.system import processes, procfs
from core.system.processes import ProcessId
from tests.support.acting import played
from tests.support.running import Followed, script_spec, source_spec, start, train
from tests.support.waiting import wait_until

DAEMON = """\
import os, subprocess, sys, time
from pathlib import Path
note = Path({note!r})
# The shell exits at once, so that what it started is an orphan, in a session and with an environment of its own.
daemon = f"echo $$ > {{note}}.new; mv {{note}}.new {{note}}; exec env -i sleep 3600"
subprocess.run(["sh", "-c", f"env -i setsid sh -c '{{daemon}}' &"])
while not note.exists():
    time.sleep(0.01)
while not Path(f"/proc/{{note.read_text().strip()}}/cmdline").read_bytes().startswith(b"sleep"):
    time.sleep(0.01)  # until then it has the name of the shell
"""


class Daemon:
    """What a program starts to escape its run."""

    def __init__(self, folder: Path) -> None:
        self._note = folder / "daemon.pid"
        self.code = DAEMON.format(note=str(self._note))

    def process(self) -> ProcessId:
        wait_until(self._note.exists, "the daemon")
        found = processes.identify(int(self._note.read_text()))
        wait_until(lambda: procfs.variables(found.pid) == [b""], "its empty environment")
        return found

    def kill(self) -> None:
        if self._note.exists() and (found := processes.identify(int(self._note.read_text()))):
            processes.send(found, signal.SIGKILL)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    made.kill()


def test_daemon_of_a_script_is_terminated_and_named_at_its_end(runs_root: Path, tmp_path: Path, daemon: Daemon) -> None:
    followed = train(source_spec(tmp_path, daemon.code), runs_root)
    assert followed.state is RunState.FINISHED
    (ended,) = followed.run.facts.ended_processes
    assert (ended.name, ended.signal, ended.by) == ("sleep", "SIGTERM", "supervisor")
    assert not processes.is_alive(processes.ProcessId(pid=ended.pid, created=ended.created))
    notices = " ".join(followed.run.facts.notices)
    assert f"A process outlived its worker and was sent SIGTERM: pid {ended.pid} sleep" in notices


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_daemon_ends_with_a_stopped_run_and_with_a_killed_supervisor(runs_root, tmp_path, daemon, how) -> None:
    followed = start(played(tmp_path / "actor", before=daemon.code), runs_root).until_trained(1)
    process = daemon.process()
    if how == "stop":
        followed.stop()
    else:
        followed.kill_supervisor()
        wait_until(lambda: not processes.is_alive(process), "the guard to end the daemon")
        followed.until_over()
    assert not processes.is_alive(process)
    named = wait_until(lambda: followed.poll().run.facts.ended_processes, "the record of the ended processes")
    assert (process.pid, "supervisor" if how == "stop" else "guard") in {(each.pid, each.by) for each in named}


@pytest.mark.slow
def test_run_started_by_a_script_outlives_it(runs_root: Path, tmp_path: Path) -> None:
    """The inner supervisor is an orphan below the outer guard, but it belongs to another run."""
    script, inner_root = tmp_path / "outer.py", tmp_path / "inner"
    code = "import sys; from tests.process.test_daemons import start_inner; start_inner(*sys.argv[1:])"
    script.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); {code}")
    spec = script_spec(script, str(tmp_path / "actor"), str(inner_root), cwd=tmp_path)
    outer = train(spec, runs_root)
    assert (outer.state, outer.run.facts.ended_processes) == (RunState.FINISHED, ()), outer.run.log_end()
    (inner_dir,) = directories(inner_root)
    inner = Followed(Run.attach(inner_dir)).until_trained(1)
    assert inner.stop().state is RunState.STOPPED


def start_inner(actor: str, root: str) -> None:
    """Start a run, as a program of the user may, and wait until it trains."""
    del os.environ[CORES_VARIABLE]  # the outer run allows one core only
    start(played(Path(actor)), Path(root)).until_trained(1)
