"""Strategies whose processes listen run in a network of their own, or not at all unless their ports may be open."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.cli.__main__ import main
from core.launchers import loopback
from core.launchers.loopback import LoopbackNetwork, NoLoopbackNetworkError
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.spec import RunSpec
from core.system import processes
from tests.support import no_namespaces
from tests.support.running import CAME_UP, FOREVER, Followed, make_spec, start, write_recipe
from tests.support.two_users import OTHER_UID
from tests.support.waiting import wait_until
from tests.support.web_server import WebServer

ROOT = Path(__file__).resolve().parents[2]
FETCHER, WORKERS = 2, (0, 1)
"""Ranks of the processes of a run on two devices."""

pytestmark = pytest.mark.skipif(bool(loopback.obstacle("any")), reason=loopback.obstacle("any"))

DOWNLOADS = """
import json, os, sys, urllib.request

role = json.loads(sys.argv[2])["role"]

def model():
    try:
        urllib.request.urlopen("http://{host}/{{}}".format(role))
    except OSError as error:
        return role + ": " + str(error)
    return role + ": connected"

def train_data():
    if not os.path.exists("{file}"):
        urllib.request.urlretrieve("http://{host}/data", "{file}")
    with open("{file}") as file:
        return json.load(file)
"""
WAITS = """
import json, os, sys, time

def model():
    pass

def train_data():
    if json.loads(sys.argv[2])["role"] == "fetch":
        open("{note}", "w").close()
        time.sleep(3600)
    return range(64)
"""

NEEDS_GPU = """
import json, sys

def model():
    if json.loads(sys.argv[2])["role"] == "fetch":
        raise OSError("no GPU")

def train_data():
    return range(64)
"""


def listening_spec(recipe: str, strategy: str = "multi_worker_mirrored", **more: Any) -> RunSpec:
    spec = make_spec(recipe, devices="cpu:0,cpu:1", **more)
    return replace(spec, framework="tensorflow", strategy=strategy)


def namespace(pid: int | str, kind: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def until_only(followed: Followed, pids: set[int]) -> None:
    """Wait until these are the processes of the run: the one that fetches data may still be leaving."""
    wait_until(lambda: {process.pid for process in processes.tagged(followed.run.id)} == pids, "the workers alone")


def assert_nothing_is_left(followed: Followed) -> None:
    wait_until(lambda: not processes.tagged(followed.run.id), "all processes of the run to end")


# -- the network ---------------------------------------------------------------------------------


def test_recipe_downloads_once_and_its_workers_reach_nobody(runs_root: Path, tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    with WebServer(data=json.dumps(list(range(128))).encode()) as server:
        recipe = write_recipe(tmp_path, DOWNLOADS.format(host=server.host, file=file))
        followed = start(listening_spec(recipe, epochs=1), runs_root).until_over()
    assert followed.states == [*CAME_UP, RunState.RELEASING, RunState.FINISHED], followed.run.facts.error
    assert server.fetched == ["/data", "/fetch"]
    (checkpoint,) = (followed.run.dir / "checkpoints").iterdir()
    for rank in WORKERS:
        assert "Connection refused" in json.loads((checkpoint / f"state-{rank}.json").read_text())["model"]
    written = [path for path in followed.run.dir.rglob("*") if path.is_file()]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in written} == {(os.getuid(), os.getgid())}
    assert {rank: worker.role for rank, worker in followed.run.facts.workers.items()} == {
        0: "worker", 1: "worker", FETCHER: "fetch",
    }


@pytest.mark.slow
def test_processes_in_the_network_are_found_paused_and_resumed(runs_root: Path, endless: str) -> None:
    followed = start(listening_spec(endless, epochs=FOREVER), runs_root).until_trained()
    pids = {followed.run.facts.workers[rank].process.pid for rank in WORKERS}
    until_only(followed, pids)
    networks = {namespace(pid, "net") for pid in pids}
    assert len(networks) == 1
    assert namespace("self", "net") not in networks
    assert followed.pause().state is RunState.PAUSED
    again = Followed(Run.resume(followed.run.dir)).until(RunState.RUNNING)
    assert again.stop().state is RunState.STOPPED
    assert_nothing_is_left(again)


def test_connection_from_outside_reaches_no_port(tmp_path: Path) -> None:
    """Without root a user namespace is entered too; there a process has no rights that it did not have before."""
    folder = Path(tempfile.mkdtemp())  # the other user cannot reach `tmp_path`
    python = shutil.which("python3", path=os.defpath) if os.getuid() == 0 else sys.executable
    try:
        if python is None:
            pytest.skip("no Python here can be started by another user than root")
        folder.chmod(0o755)
        shutil.copy(loopback.__file__, folder / "loopback.py")
        (folder / "loopback.py").chmod(0o644)
        (folder / "attack.py").write_text(ATTACK)
        user = {"user": OTHER_UID, "group": OTHER_UID, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run(
            [python, "-B", "attack.py"], cwd=folder, capture_output=True, text=True,
            check=False, env={"TRAINYARD_RUN": "a-run"}, **user,
        )
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == {
        "connected from outside": False, "socket outside": False,
        "user": [OTHER_UID, OTHER_UID] if os.getuid() == 0 else [os.getuid(), os.getgid()], "rights": 0, "tag": True,
    }


ATTACK = """
import json, os, socket, subprocess, sys
import loopback

SERVER = '''
import os, re, socket, sys
server = socket.create_server(("", 0))
port = server.getsockname()[1]
inside = socket.create_connection(("127.0.0.1", port))
server.accept()
rights = int(re.search("CapEff:(.*)", open("/proc/self/status").read())[1], 16) if os.getuid() else 0
print(port, os.fstat(server.fileno()).st_ino, os.getuid(), os.getgid(), rights, flush=True)
sys.stdin.read()
server.setblocking(False)
try:
    server.accept()
    print("connected")
except BlockingIOError:
    print("not connected")
'''

network = loopback.LoopbackNetwork()
command = network.command([sys.executable, "-c", SERVER])
process = subprocess.Popen(
    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=network.descriptors, text=True
)
network.close()
port, socket_inode, user, group, rights = map(int, process.stdout.readline().split())
for address in "127.0.0.1", "::1":
    try:
        socket.create_connection((address, port)).close()  # perhaps to another program with the same port outside
    except OSError:
        pass
tables = open("/proc/net/tcp").readlines()[1:] + open("/proc/net/tcp6").readlines()[1:]
tagged = b"TRAINYARD_RUN=a-run" in open(f"/proc/{process.pid}/environ", "rb").read()
came, _ = process.communicate()
print(json.dumps({
    "connected from outside": came.strip() == "connected",
    "socket outside": str(socket_inode) in {line.split()[9] for line in tables},
    "user": [user, group], "rights": rights, "tag": tagged,
}))
"""


# -- what ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fetches", "ends", "state", "error"),
    [
        (False, "supervisor", RunState.LOST, "The run's supervisor"),
        (False, "rank 1", RunState.FAILED, "Worker 1 on cpu:1 was ended by SIGKILL"),
        (True, "supervisor", RunState.LOST, "The run's supervisor"),
        (True, f"rank {FETCHER}", RunState.FAILED, "The process that fetches data was ended by SIGKILL"),
        (True, "stop", RunState.STOPPED, "None"),
    ],
)
def test_run_that_ends_while_it_fetches_or_trains_leaves_no_process(
    runs_root, tmp_path, endless, fetches, ends, state, error
) -> None:
    note = tmp_path / "note"
    recipe = write_recipe(tmp_path, WAITS.format(note=note), "waits") if fetches else endless
    followed = start(listening_spec(recipe, epochs=FOREVER), runs_root)
    if fetches:
        wait_until(lambda: note.exists() and len(followed.poll().run.facts.workers) == 3, "the fetching")
    else:
        followed.until_trained()
    if ends == "supervisor":
        followed.kill_supervisor()
    elif ends == "stop":
        followed.run.request("stop")
    else:
        os.kill(followed.run.facts.workers[int(ends[-1])].process.pid, signal.SIGKILL)
    assert followed.until_over().state is state
    assert str(followed.run.facts.error).startswith(error)
    assert_nothing_is_left(followed)


def test_error_while_fetching_is_the_error_of_the_run(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "def model():\n    pass\n\ndef train_data():\n    return open('/no/such/data')\n")
    followed = start(listening_spec(recipe), runs_root).until_over()
    assert followed.failure.startswith("The process that fetches data: FileNotFoundError: [Errno 2]")
    assert f'File "{recipe}", line 5, in train_data' in str(followed.run.facts.traceback)
    assert_nothing_is_left(followed)


@pytest.mark.slow
def test_run_without_roots_rights_is_kept_apart_and_ended_as_well(runs_root: Path, endless: str) -> None:
    """Its workers are in a user namespace, too: their tags stay readable, and the guard can end them."""
    without = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"] if os.getuid() == 0 else []
    if without and shutil.which("setpriv") is None:
        pytest.skip("setpriv, which takes root's rights away, is not installed")
    command = ["run", endless, "--epochs", str(FOREVER), "--strategy", "multi_worker_mirrored"]
    done = subprocess.run(
        [*without, sys.executable, "-m", "core.cli", *command, "--framework", "tensorflow", "--devices",
         "cpu:0,cpu:1", "--detach", "--runs", str(runs_root)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    (run_dir,) = runs_root.iterdir()
    followed = Followed(Run.attach(run_dir)).until_trained()
    facts = followed.run.facts
    pids = {facts.workers[rank].process.pid for rank in WORKERS}
    until_only(followed, pids)
    assert namespace("self", "user") not in {namespace(pid, "user") for pid in pids}
    stuck = facts.workers[1].process
    os.kill(stuck.pid, signal.SIGSTOP)  # its dead-man switch cannot act
    os.kill(facts.supervisor.pid, signal.SIGKILL)
    assert_nothing_is_left(followed)
    wait_until(
        lambda: (stuck.pid, "guard") in {(each.pid, each.by) for each in followed.poll().run.facts.ended_processes},
        "the guard's record",
    )


def test_recipe_that_downloads_each_time_is_told_to_keep_its_file(runs_root: Path, tmp_path: Path) -> None:
    source = DOWNLOADS.replace('if not os.path.exists("{file}")', "if True")
    with WebServer(data=b"[1, 2]") as server:
        recipe = write_recipe(tmp_path, source.format(host=server.host, file=tmp_path / "data"))
        followed = start(listening_spec(recipe), runs_root).until_over()
    assert "URLError: The recipe contacts another computer (" in followed.failure
    assert "keep what it downloads in a file, or choose strategy mirrored" in followed.failure
    assert "in train_data" in str(followed.run.facts.traceback)


def test_model_that_needs_a_gpu_is_built_by_the_workers_alone(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, NEEDS_GPU)
    followed = start(listening_spec(recipe, epochs=1), runs_root).until_over()
    assert followed.state is RunState.FINISHED, followed.run.facts.error
    (notice,) = followed.run.facts.notices
    assert notice.startswith("model() of recipe failed in the process that fetches data, which has no GPU (OSError: no")
    assert "OSError: no GPU" in followed.run.log_end()


# -- where the kernel does not allow it ----------------------------------------------------------


def denied(*arguments: str, runs_root: Path) -> subprocess.CompletedProcess[str]:
    """Run a command where no network namespace can be made."""
    done = subprocess.run(
        [sys.executable, no_namespaces.__file__, sys.executable, "-m", "core.cli", *arguments, "--runs", runs_root],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    if done.returncode == no_namespaces.CANNOT:
        pytest.skip("this machine allows no user namespace, in which namespaces could be forbidden")
    return done


def test_program_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "WAIT_S", 0.2)
    monkeypatch.setattr(loopback, "_program", lambda *_: ["sleep", "3600"])
    with pytest.raises(NoLoopbackNetworkError, match="timed out"):
        LoopbackNetwork()


@pytest.mark.slow
def test_strategy_that_listens_is_refused_without_its_own_network(runs_root: Path, endless: str) -> None:
    run = ("run", endless, "--framework", "tensorflow", "--devices", "cpu:0,cpu:1")
    refused = denied(*run, "--strategy", "parameter_server", runs_root=runs_root)
    assert refused.returncode == 2
    assert "Strategy parameter_server opens network ports without a password" in refused.stderr
    assert "(unshare: No space left on device; user.max_net_namespaces is 0)" in refused.stderr
    assert "Choose strategy mirrored, or allow open ports (--allow-open-ports)." in refused.stderr
    assert not runs_root.exists()
    listed = denied("catalog", runs_root=runs_root).stdout
    assert "tensorflow multi_worker_mirrored: Strategy multi_worker_mirrored opens network ports" in listed


@pytest.mark.slow
def test_allowed_open_ports_are_named_in_a_notice(runs_root: Path, endless: str, capsys) -> None:
    run = ("run", endless, "--framework", "tensorflow", "--devices", "cpu:0,cpu:1", "--epochs")
    done = denied(*run, "1", "--strategy", "multi_worker_mirrored", "--allow-open-ports", runs_root=runs_root)
    assert done.returncode == 0, done.stderr
    (run_dir,) = runs_root.iterdir()

    def said(*words: str) -> str:
        assert main([*words, str(run_dir)]) == 0
        return capsys.readouterr().out

    (notice,) = json.loads(said("show", "--json"))["notices"]
    assert "open without a password as long as this run trains, as you allowed (--allow-open-ports)" in notice
    assert notice in said("show")
    assert "--allow-open-ports" in said("command")


@pytest.mark.slow
def test_run_that_was_started_elsewhere_fails_with_the_reason(runs_root: Path, endless: str) -> None:
    """The supervisor makes the network, whatever was checked before it was started."""
    start_it = "import sys, pickle, pathlib; from core.runs.run import Run; Run.start(*pickle.load(sys.stdin.buffer))"
    spec = listening_spec(endless, epochs=1)
    done = subprocess.run(
        [sys.executable, no_namespaces.__file__, sys.executable, "-c", start_it],
        input=pickle.dumps((spec, runs_root)), cwd=ROOT, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    (run_dir,) = runs_root.iterdir()
    followed = Followed(Run.attach(run_dir)).until_over()
    assert "opens network ports without a password" in followed.failure
    assert_nothing_is_left(followed)
    refused = denied("resume", str(run_dir), runs_root=runs_root)
    assert refused.returncode == 2
    assert "Choose strategy mirrored" in refused.stderr
    resumed = denied("resume", str(run_dir), "--allow-open-ports", runs_root=runs_root)
    assert resumed.returncode == 0, resumed.stderr
    again = Followed(Run.attach(run_dir)).until_over()
    assert "as you allowed (--allow-open-ports)" in again.run.facts.notices[-1]
