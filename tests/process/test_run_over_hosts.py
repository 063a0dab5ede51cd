"""What keeps a run over several machines from starting, and scripts that run on two machines.

No framework is loaded: about a second of processor time each.
"""

import shutil
from ast import literal_eval
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.hosts import host_list
from core.hosts.parts import meeting, run_hosts
from core.runs.facts import RunState
from core.schema.paths import log_of_rank
from core.schema.spec import RunSpec
from tests.support.commands import call
from tests.support.running import LONG, Followed, make_spec, source_spec, start, train, write_recipe
from tests.support.ssh_server import TRAINYARD, SshServer, add_host
from tests.support.two_hosts import AWAY, parts, processes_there, unreachable
from tests.support.waiting import wait_until

RUN = ("run", "digits_cnn", "--strategy", "ddp", "--epochs", "1", "--devices")


@pytest.fixture(autouse=True)
def _host(server: SshServer) -> None:
    add_host("one")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    {
        "cpu:0,one/cpu:7": "There is no device 'one/cpu:7' here. Choose from: cpu:0",
        "one/cpu:0,one/cpu:1": "needs a device of this one, where its checkpoints are kept",
        "cpu:0,one/cpu:0 --queue": "The queue waits for devices of this machine only.",
        "cpu:0,closed/cpu:0": "closed (closed) accepts no connections by ssh",
        "cpu:0,one/cpu:0 --framework tensorflow --strategy mirrored":
            "Data parallel (mirrored) runs on one machine, and one · CPU 0 is on another.",
    }.items(),
)
def test_choice_that_cannot_be_is_refused_before_there_is_a_run(capsys, runs_root: Path, arguments, sentence) -> None:
    add_host("closed")
    code, out, err = call(capsys, *RUN, *arguments.split(), "--runs", runs_root)
    assert code in {1, 2}
    assert out == ""
    assert sentence in err
    assert not runs_root.exists()


def test_script_in_one_process_is_refused_over_machines(capsys, runs_root: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('loss 1')\n")
    script = ("run", "--script", tmp_path / "train.py", "--launch", "one")
    code, _, err = call(capsys, *script, "--devices", "cpu:0,one/cpu:0", "--runs", runs_root)
    assert code == 2
    assert "One process runs on one machine, and one · CPU 0 is on another. Choose per-device" in err


def failed_start(runs_root: Path, recipe: str, **choices: Any) -> str:
    """Start a run over two machines whose start fails, and return why."""
    run = train(replace(make_spec(recipe, **choices), devices=("cpu:0", "one/cpu:0"), strategy="ddp"), runs_root)
    assert run.run.facts.workers == {}
    return run.failure


@pytest.mark.slow
def test_machines_that_cannot_connect_to_each_other_are_named(runs_root: Path, endless: str, monkeypatch) -> None:
    monkeypatch.setenv(meeting.ADDRESS_VARIABLE, "192.0.2.1")
    error = failed_start(runs_root, endless)
    assert "192.0.2.1 cannot be used here" in error
    assert "Open the firewall of this machine for them" in error


def test_host_that_was_removed_from_the_list_is_named(runs_root: Path, endless: str) -> None:
    host_list.remove("one")
    assert "There is no host one. Add it" in failed_start(runs_root, endless)


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("exit 1", ["one says: PyTorch is not installed in"]),
        ("exit 0", ["one has torch 1.2.3, and this machine has", "Ranks of one run need the same version."]),
    ],
    ids=["missing", "another version"],
)
def test_host_whose_framework_is_missing_or_another_is_named(runs_root, endless, script, python, words) -> None:
    other = script(f'case "$*" in *find_spec*) {python};; esac; echo 1.2.3')
    host_list.remove("one")
    add_host("one", f"env TRAINYARD_PYTHON_PYTORCH={other} {TRAINYARD}")
    error = failed_start(runs_root, endless)
    assert all(each in error for each in words), error


def test_data_that_a_host_does_not_have_are_named_before_anything_trains(runs_root, tmp_path, monkeypatch) -> None:
    """The home of the host is another one, so what is in the home here is missing there."""
    (tmp_path / "home" / "data").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    recipe = write_recipe(tmp_path, LONG.replace("items=64", "items=64, folder=''"))
    error = failed_start(runs_root, recipe, settings={"folder": "~/data"})
    assert error.startswith("~/data does not exist on one, and this run names it in its settings. Data do not")


# -- scripts -------------------------------------------------------------------------------------

SHOWS = """\
import os, socket, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "GROUP_WORLD_SIZE",
         "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
print({name: os.environ.get(name) for name in names}, flush=True)
rank = int(os.environ["RANK"])
meeting = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:  # a store of its own: the source names no framework
    listener = socket.create_server(meeting)
    others = [listener.accept()[0] for _ in range(int(os.environ["WORLD_SIZE"]) - 1)]
else:
    while True:
        try:
            socket.create_connection(meeting).close()
            break
        except ConnectionRefusedError:
            pass
for step in range(1, 21):
    print(f"step {step} loss {1 / step + rank:.4f}", flush=True)
if sys.argv[1:] == ["fail"] and rank:
    raise ValueError("no more data")
"""
"""A program for torchrun that needs no framework: its ranks meet as PyTorch's do without a store of the launcher."""
ENDLESS = """\
import os, time
os.environ["RANK"]  # it is written for torchrun
step = 0
try:
    while True:
        step += 1
        print(f"step {step} loss 0.5", flush=True)
        time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def over_machines(tmp_path: Path, source: str, *arguments: str, devices: str = AWAY) -> RunSpec:
    """Return the spec of a program with a rank here, and one on each of these devices of hosts."""
    spec = source_spec(tmp_path, source, *arguments, launch="per-device")
    return replace(spec, devices=("cpu:0", *devices.split(",")))


@pytest.mark.slow
def test_script_over_machines_gets_the_variables_of_torchrun(server, runs_root: Path, tmp_path: Path) -> None:
    run = train(over_machines(tmp_path, SHOWS, devices="one/cpu:0,one/cpu:1"), runs_root)
    assert run.states[-1] is RunState.FINISHED, run.run.facts
    shown = [literal_eval(log_of_rank(run.run.dir, rank).read_text().splitlines()[0]) for rank in range(3)]
    sizes = {"WORLD_SIZE": "3", "GROUP_WORLD_SIZE": "2"}
    own = [("0", "0", "0", "1"), ("1", "0", "1", "2"), ("2", "1", "1", "2")]
    for found, (rank, local_rank, node, local_size) in zip(shown, own, strict=True):
        expected = {**sizes, "RANK": rank, "LOCAL_RANK": local_rank, "GROUP_RANK": node, "NODE_RANK": node}
        assert found.items() >= {**expected, "LOCAL_WORLD_SIZE": local_size}.items()
        assert found["NCCL_SOCKET_IFNAME"] == "=" + found["GLOO_SOCKET_IFNAME"]
    assert len({(found["MASTER_ADDR"], found["MASTER_PORT"]) for found in shown}) == 1
    trusted = f"over {shown[0]['GLOO_SOCKET_IFNAME']} without encryption"
    assert any(trusted in each for each in run.run.facts.notices)

    assert run.losses() == pytest.approx([1 / step for step in range(1, 21)], abs=1e-4), "the curve is that of rank 0"
    assert {rank: (each.devices, each.host, each.exit_code) for rank, each in run.run.facts.workers.items()} == {
        0: (("cpu:0",), "", 0), 1: (("one/cpu:0",), "one", 0), 2: (("one/cpu:1",), "one", 0),
    }
    assert set(run.run.facts.releases) == {"cpu:0", "one/cpu:0", "one/cpu:1"}
    assert parts(server) == []


@pytest.mark.slow
def test_rank_of_a_script_that_fails_on_the_other_machine_is_named_with_its_error(server, runs_root, tmp_path) -> None:
    run = train(over_machines(tmp_path, SHOWS, "fail"), runs_root)
    where = f"train.py (Worker 1 on {AWAY})"
    assert run.failure.startswith(f"{where} ended with exit code 1: ValueError: no more data")
    assert parts(server) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("echo '# edited' >> {file}", "have another content than on the machine that starts the run: {file}."),
        ("rm {file}", "These files of the script are missing or cannot be read: {file}."),
    ],
)
def test_script_that_is_not_the_same_there_is_not_started(runs_root, tmp_path, script, change, sentence) -> None:
    """Both machines of the test have one disk: what starts Trainyard on the host changes the module of the script."""
    module = tmp_path / "lessons.py"
    module.write_text("steps = 5\n")
    host_list.remove("one")
    add_host("one", script(f'{change.format(file=module)}; exec {TRAINYARD} "$@"'))
    run = train(over_machines(tmp_path, f"import lessons\n{SHOWS}"), runs_root)
    assert run.failure.startswith("one says: These files of the script ")
    assert sentence.format(file=module) in run.failure
    assert run.run.facts.workers == {}


def test_recorded_copy_of_a_script_is_not_started_on_several_machines(runs_root: Path, tmp_path: Path) -> None:
    run = train(replace(over_machines(tmp_path, SHOWS), recorded=True), runs_root)
    assert "The recorded copy of train.py is on this machine only" in str(run.run.facts.error)
    assert run.run.facts.workers == {}


def test_variable_that_the_host_does_not_have_is_named(runs_root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN_OF_A_TEST", "secret")
    spec = over_machines(tmp_path, SHOWS)
    run = train(replace(spec, script=replace(spec.script, inherited=("TOKEN_OF_A_TEST",))), runs_root)
    assert str(run.run.facts.error).startswith("one says: The variable TOKEN_OF_A_TEST is not set.")


@pytest.mark.slow
def test_script_over_machines_is_stopped(server: SshServer, runs_root: Path, tmp_path: Path) -> None:
    run = start(over_machines(tmp_path, ENDLESS), runs_root).until_trained(3)
    wait_until(lambda: "step 3" in _text(run, 1), "the output of the other machine")
    run.stop()
    assert run.states[-1] is RunState.STOPPED, run.run.facts
    assert "interrupted" in _text(run, 0)
    assert "interrupted" in _text(run, 1), "both machines interrupt the script as Ctrl-C does"
    assert parts(server) == []


def _text(run: Followed, rank: int) -> str:
    path = log_of_rank(run.run.dir, rank)
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
def test_script_whose_machine_is_lost_fails_with_the_name_of_the_machine(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_hosts.GRACE_VARIABLE, "1")
    run = start(over_machines(tmp_path, ENDLESS), runs_root).until_trained(3)
    wait_until(lambda: "step 3" in _text(run, 1), "the output of the other machine")
    with unreachable(server):
        run.until_over()
    assert "The run cannot go on without one" in run.failure
    assert "When one can be reached, start the script again." in run.failure
    wait_until(lambda: not processes_there(server), "the processes on the host to end by themselves")
    for part in parts(server):
        shutil.rmtree(part)
