"""The commands for other machines, through a real ssh server: hosts, and the devices of hosts."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from core.hosts import host_list
from tests.support.commands import call
from tests.support.ssh_server import TRAINYARD, add_host

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "hosts.md"


@pytest.mark.slow
def test_hosts_are_added_listed_with_their_devices_and_removed(server, capsys, runs_root):
    code, out, err = call(capsys, "hosts", "add", "one", "--command", TRAINYARD)
    assert (code, err) == (0, "")
    assert re.fullmatch(
        r"one has been added: reachable, Trainyard \S+, Python \S+, clock [+-]\d+\.\d s\. "
        r"Its devices: one/cpu:0 and one/cpu:1\n",
        out,
    )
    code, out, err = call(capsys, "hosts", "add", "ssh://two", "--name", "second", "--command", TRAINYARD, "--json")
    assert (code, err, json.loads(out)["name"]) == (0, "", "second")

    code, out, err = call(capsys, "hosts", "--json")
    rows = json.loads(out)
    assert [each["name"] for each in rows] == ["one", "second"]
    assert all(each["state"] == "reachable" and each["failure"] is None and not each["problem"] for each in rows)
    assert all(each["host"] == socket.gethostname() for each in rows)
    assert all(abs(each["clock_offset_s"]) <= each["round_trip_s"] / 2 for each in rows)
    assert [each["runs"] for each in rows] == [
        f"{server.folder}/{home}/.local/share/trainyard/runs" for home in ("one", "two")
    ]

    local = json.loads(alone(capsys, runs_root)[1])
    code, out, err = call(capsys, "devices", "--json", "--runs", runs_root)
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [set(each) for each in rows[: len(local)]] == [set(each) for each in local], (
        "those here are as without hosts"
    )
    there = rows[len(local) :]
    assert [each["id"] for each in there] == ["one/cpu:0", "one/cpu:1", "second/cpu:0"]
    assert [each["host"] for each in there] == ["one", "one", "second"]
    assert all(set(each) - {"host"} == set(local[0]) and each["memory_total_bytes"] for each in there)
    code, out, err = call(capsys, "devices", "--runs", runs_root)
    assert [line.split()[0] for line in out.splitlines()][-3:] == ["one/cpu:0", "one/cpu:1", "second/cpu:0"]

    code, out, err = call(capsys, "hosts", "remove", "SECOND")
    assert (code, out) == (0, "second has been removed from the list. Nothing was changed on ssh://two.\n")
    assert [each.name for each in host_list.load().hosts] == ["one"]


def alone(capsys, runs_root):
    """Return what `devices --json` prints while no host has been added."""
    kept = host_list.hosts_file().read_bytes()
    host_list.hosts_file().unlink()
    try:
        return call(capsys, "devices", "--json", "--runs", runs_root)
    finally:
        host_list.hosts_file().write_bytes(kept)


@pytest.mark.slow
def test_host_that_cannot_be_asked_is_a_sentence_beside_the_others(server, capsys, runs_root):
    add_host("closed")
    add_host("one")
    code, out, err = call(capsys, "devices", "--json", "--runs", runs_root)
    rows = json.loads(out)
    assert code == 0
    assert "closed (closed) accepts no connections by ssh" in err
    (lost,) = [each for each in rows if each.get("host") == "closed"]
    assert (lost["id"], lost["kind"], lost["runs"], lost["cores"]) == ("closed", "host", [], [])
    assert "Start the ssh server there" in lost["lost"]
    assert lost["lost"] == lost["blocked"]
    assert set(lost) - {"host"} == set(rows[0])
    assert [each["id"] for each in rows if each.get("host") == "one"] == ["one/cpu:0", "one/cpu:1"]
    code, out, err = call(capsys, "hosts")
    assert code == 0
    assert re.search(r"^closed +closed +closed \(closed\) accepts no connections", out, re.MULTILINE)
    assert re.search(r"^one +one +reachable, Trainyard", out, re.MULTILINE)
    code, out, _ = call(capsys, "hosts", "--json")
    assert [(each["state"], each["failure"]) for each in json.loads(out)] == [
        ("not reachable", "closed port"), ("reachable", None),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["hosts", "add", "ray:head"], "'ray:head' is no address of a Ray cluster. Give ray:auto"),
        (["hosts", "add", "ray:auto", "--command", "trainyard"], "--command is not for ray:auto. Leave it out."),
        (["hosts", "add", "ray:auto", "--python", "/nowhere/python"], "/nowhere/python is no program."),
        (["hosts", "add", "one", "--python", "python3"], "--python is not for one. Leave it out."),
        (["hosts", "add", "-oProxyCommand=touch reached"], "is no address of a machine"),
        (["hosts", "add", "-oProxyCommand=reboot"], "is not an argument of"),
        (["hosts", "add", "--", "-oProxyCommand=reboot"], "The address is missing"),
        (["hosts", "add", "one", "--name", "a/b"], "A host cannot be named 'a/b'"),
        (["hosts", "add"], "The address is missing: trainyard hosts add USER@HOST"),
        (["hosts", "remove"], "The name is missing"),
        (["hosts", "remove", "x"], "There is no host 'x'. None has been added."),
        (["hosts", "remove", "x", "--name", "y"], "are for `hosts add`"),
        (["hosts", "list"], "Choose one of: 'add', 'remove'"),
        (["agent"], "is started by the Trainyard of another machine (trainyard hosts add)"),
        (["--host", "x@y", "runs"], "To run one command there: ssh x@y trainyard runs"),
        (["--host", "x@y", "--runs", "/elsewhere"], "--runs is a folder of this machine"),
        (["--host", "a;b"], "'a;b' is no address of a machine."),
        (["--host", "-oProxyCommand=touch reached"], "'-oProxyCommand=touch reached' is no address of a machine."),
    ],
)
def test_wrong_use_is_one_sentence_and_starts_no_ssh(server, capsys, monkeypatch, arguments, sentence):
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert host_list.load().hosts == ()


def test_damaged_list_of_hosts_is_told_and_the_devices_here_are_listed(capsys, runs_root):
    host_list.hosts_file().parent.mkdir(parents=True)
    host_list.hosts_file().write_text("{")
    code, out, err = call(capsys, "devices", "--json", "--runs", runs_root)
    assert code == 0
    assert "hosts.json are damaged. Delete the file, then add them again." in err
    assert all("host" not in each for each in json.loads(out))
    code, out, err = call(capsys, "hosts", "add", "one")
    assert (code, out) == (2, "")
    assert err.endswith("Nothing was changed.\n")


def test_host_that_fails_is_not_added(server, capsys):
    code, out, err = call(capsys, "hosts", "add", "closed")
    assert (code, out) == (2, "")
    assert err.endswith("The host was not added.\n")
    assert host_list.load().hosts == ()


def test_without_hosts_no_ssh_is_started_and_nothing_of_it_is_loaded(monkeypatch, tmp_path):
    (tmp_path / "ssh").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    code = (
        "import sys\nfrom core.cli.__main__ import main\n"
        f"assert main(['devices', '--json', '--runs', {str(tmp_path)!r}]) == 0\n"
        "print(*(name for name in sys.modules if name.startswith('core.hosts.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {*done.stderr.split()} == {"core.hosts.host_list"}
    assert all("host" not in each for each in json.loads(done.stdout))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", ["one/cpu:0", "lab/GPU-8a56,cpu:0"])
def test_training_on_a_host_that_was_not_added_is_refused_in_one_sentence(capsys, runs_root, name):
    train = runs_root.with_name("train.py")
    train.write_text("print('loss: 1')")
    for what in (["digits_cnn"], ["--script", train], ["digits_cnn", "--queue", "--detach"]):
        code, out, err = call(capsys, "run", *what, "--devices", name, "--runs", runs_root)
        assert (code, out) == (2, "")
        host = name.partition("/")[0]
        assert err.splitlines()[-1] == (
            f"trainyard: There is no host {host}. Add it: trainyard hosts add ADDRESS --name {host}"
        )
    assert not runs_root.exists()


@pytest.mark.slow
def test_documented_commands_work(server, capsys):
    """The page's address and path are those of its reader; all else is as it stands there."""
    (block,) = re.findall(r"^```\n(trainyard hosts add anna.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert len(lines) > 3
    for words in lines:
        own = [{"anna@workstation": "one", "anna@node2.example.org": "two"}.get(word, word) for word in words]
        own = [str(TRAINYARD) if word.endswith("/trainyard") else word for word in own]
        if own[:2] == ["hosts", "add"] and "--command" not in own:
            own += ["--command", TRAINYARD]
        code, _, err = call(capsys, *own)
        assert (code, err) == (0, ""), words


@pytest.mark.slow
def test_runs_of_a_host_are_shown_on_its_devices(server, capsys, runs_root, script):
    """A live run is one with a supervisor that is alive; it is started on the host's own folder."""
    add_host("one", command=f"{TRAINYARD} --runs {runs_root}")
    train = runs_root.with_name("train.py")
    train.write_text("import time\nprint('loss: 1', flush=True)\ntime.sleep(3600)")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = [sys.executable, "-m", "core.cli", "--runs", str(runs_root), "run", "--script", str(train)]
    subprocess.run([*start, "--devices", "cpu:0", "--detach"], env=environment, check=True, capture_output=True)
    (run,) = [each.name for each in runs_root.iterdir()]
    try:
        rows = json.loads(call(capsys, "devices", "--json", "--runs", runs_root.with_name("other"))[1])
        assert {each["id"]: each["runs"] for each in rows if "host" in each} == {"one/cpu:0": [run], "one/cpu:1": []}
        assert f"run {run}" in call(capsys, "devices", "--runs", runs_root.with_name("other"))[1]
    finally:
        assert call(capsys, "stop", run, "--force", "--runs", runs_root)[0] in {0, 3}


def test_clock_that_is_off_is_told_with_its_offset(server, capsys, script):
    program = (
        "import time\nreal = time.time\ntime.time = lambda: real() + 3630\n"
        "from pathlib import Path\nfrom core.hosts.agent.abilities import ABILITIES\n"
        "from core.hosts.agent.server import serve\n"
        "serve(Path('/nowhere'), ABILITIES)"
    )
    command = script(f"cd {ROOT} && exec {sys.executable} -c {shlex.quote(program)}")
    code, _, err = call(capsys, "hosts", "add", "one", "--command", command)
    assert code == 0
    assert "The clock of one is 1 h 0 min ahead of the one here." in err
    (row,) = json.loads(call(capsys, "hosts", "--json")[1])
    assert abs(row["clock_offset_s"] - 3630) <= row["round_trip_s"] / 2, "as exact as it can be measured"
    assert row["state"] == "reachable"
    assert "timedatectl" in row["problem"]
