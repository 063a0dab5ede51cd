"""Where the ranks of a script meet: a store on the loopback interface, unless the program decides that itself."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.history.index import directories
from core.launchers.torch_store import HOST, TorchStore
from core.runs.facts import RunState
from core.runs.run import Run
from core.system import processes
from tests.support.listening import listening, processes_of
from tests.support.patient_supervisor import start_patiently
from tests.support.running import Followed, source_spec
from tests.support.waiting import wait_until

AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
WAITS = """\
import os, time
print(os.environ["TORCHELASTIC_USE_AGENT_STORE"], "step 1 loss 0.5", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""
LISTENS = """\
import os, socket
if os.environ["RANK"] == "0":
    socket.create_server(("", int(os.environ["MASTER_PORT"])))
print(os.environ["TORCHELASTIC_USE_AGENT_STORE"])
"""


def ranks(folder: Path, source: str, **environment: str) -> Followed:
    """Start a program with two ranks."""
    two = {"devices": "cpu:0,cpu:1", "launch": "per-device"}
    return start_patiently(source_spec(folder, source, environment=environment, **two), folder / "runs")


def stores() -> list[int]:
    """Return the pids of the stores that were started by tests."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"torch_store.py") for word in words):
            found.append(int(folder.name))
    return found


def test_ranks_that_never_meet_load_no_pytorch(tmp_path: Path) -> None:
    followed = ranks(tmp_path, WAITS).until_trained()
    assert followed.run.log_end().split()[0] == "True"
    (store,) = [pid for pid in processes_of(followed.run.dir) if pid in stores()]
    assert [address for address, _ in listening([store])] == [HOST]
    assert "libtorch" not in Path(f"/proc/{store}/maps").read_text()

    (tmp_path / "go").touch()
    assert followed.until_over().state is RunState.FINISHED
    (notice,) = followed.run.facts.notices
    assert notice.startswith("The 2 processes of train.py never met through torch.distributed")
    wait_until(lambda: processes.identify(store) is None, "the store to end with the supervisor")


def test_lost_store_is_reported_and_the_script_continues(tmp_path: Path) -> None:
    followed = ranks(tmp_path, WAITS).until_trained()
    (store,) = [pid for pid in processes_of(followed.run.dir) if pid in stores()]
    os.kill(store, signal.SIGKILL)
    wait_until(lambda: followed.poll().run.facts.notices, "a notice")
    assert "--env TORCHELASTIC_USE_AGENT_STORE=False" in followed.run.facts.notices[0]
    (tmp_path / "go").touch()
    assert followed.until_over().state is RunState.FINISHED


@pytest.mark.parametrize(
    ("source", "environment"),
    [
        pytest.param(LISTENS, {}, id="it listens at the port"),
        pytest.param(f"{WAITS}# meets\naddress = 'tcp://localhost:1234'\n", {}, id="it names an address"),
        pytest.param(f"{WAITS}if 0:\n    import jax\n", {}, id="another framework"),
        pytest.param(WAITS, {AGENT_STORE: "False"}, id="the user's variable"),
        pytest.param(WAITS, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, id="torchrun's variable"),
    ],
)
def test_port_stays_free_for_a_program_that_arranges_it_itself(tmp_path, source, environment) -> None:
    (tmp_path / "go").touch()
    ended = ranks(tmp_path, source, **environment).until_over()
    assert ended.state is RunState.FINISHED, ended.run.log_end()
    assert ended.run.log_end().split()[0] == "False"


def test_run_in_a_network_of_its_own_is_stopped_from_outside(tmp_path: Path) -> None:
    """Start a run as docs/scripts.md has it."""
    own = "unshare --map-root-user --net sh -c"
    if subprocess.run([*own.split(), "ip link set lo up"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no network namespace, or lacks unshare or ip")
    root = Path(__file__).parents[2]
    assert own in (root / "docs" / "scripts.md").read_text()
    source = WAITS.replace("import os, time", "import os, socket, time\nprint(socket.if_nameindex())")
    (tmp_path / "program.py").write_text(source)
    words = [sys.executable, "-m", "core.cli", "run", "--detach", "--script", str(tmp_path / "program.py"),
             "--devices", "cpu:0,cpu:1", "--launch", "per-device", "--runs", str(tmp_path / "runs")]
    inside = f"ip link set lo up && exec {shlex.join(words)}"
    subprocess.run([*own.split(), inside], cwd=root, check=True, capture_output=True)

    (run_dir,) = directories(tmp_path / "runs")
    followed = Followed(Run.attach(run_dir)).until_trained()
    assert followed.run.log_end().startswith("[(1, 'lo')]")
    assert followed.stop().state is RunState.STOPPED
    assert processes.tagged(followed.run.id) == []


def test_rank_0_serves_where_there_is_no_suitable_pytorch(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    store = TorchStore(str(python), os.environ, str(tmp_path))
    assert not store.is_ready()
    store.close()


def test_store_outlives_the_supervisor_as_long_as_a_rank(tmp_path: Path) -> None:
    """Without supervisor and guard, a script goes on; its ranks still need the store, which then ends by itself."""
    code = (
        "import os, subprocess, sys\nfrom core.launchers.torch_store import TorchStore\n"
        "store = TorchStore(sys.executable, os.environ, sys.argv[2])\nassert store.is_ready()\n"
        "store.add_rank(int(sys.argv[1]))\nos.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(["sleep", "3600"]) as rank:
        subprocess.run([sys.executable, "-c", code, str(rank.pid), str(tmp_path)], cwd=root, check=False)
        # Tests that run at the same time have stores of their own; this one is in the folder of this test.
        (store,) = [pid for pid in stores() if Path(f"/proc/{pid}/cwd").resolve() == tmp_path]
        assert listening([store])
        rank.kill()
    wait_until(lambda: store not in stores(), "the end of the store")


def test_store_for_several_machines_listens_on_their_address_only(tmp_path: Path) -> None:
    store = TorchStore(sys.executable, os.environ, str(tmp_path), ("127.0.0.2", 0))
    try:
        assert store.is_ready()  # before, the kernel may not show its command line yet
        (pid,) = [pid for pid in stores() if Path(f"/proc/{pid}/cwd").resolve() == tmp_path]
        assert listening([pid]) == {("127.0.0.2", int(store.port))}
    finally:
        store.close()
