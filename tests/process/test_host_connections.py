"""Connections to agents through a real ssh server: what arrives, and what is left when they are cut."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from core.hosts import connection, inquiry, protocol
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import Connection
from core.hosts.host_list import Host
from core.hosts.protocol import unpack_readings
from tests.support.ssh_server import TRAINYARD, add_host
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]


def connected(host):
    opened = Connection(host)
    opened.wait(lambda: opened.hello is not None, PATIENCE_S)
    return opened


def test_readings_arrive_until_they_are_cancelled(server):
    with connected(add_host()) as lab:
        stream = lab.request("readings", period_s=0.1)
        lab.wait(lambda: len(stream.items) > 2, PATIENCE_S)
        first = unpack_readings(stream.items.popleft())
        second = unpack_readings(stream.items.popleft(), first.samples)
        assert [device.id for device in first.devices] == ["cpu:0", "cpu:1"]
        assert second.devices is None
        assert second.samples[0].time > first.samples[0].time
        latest = [second]  # an answer leaves out what has not changed since the one before

        def is_measured() -> bool:
            while stream.items:
                latest.append(unpack_readings(stream.items.popleft(), latest[-1].samples))
            return latest[-1].samples[0].utilisation_percent is not None

        lab.wait(is_measured, PATIENCE_S)
        lab.cancel(stream)
        lab.wait(lambda: stream.done, PATIENCE_S)
        assert lab.result(stream) is None
        clock = lab.compare_clock()
        assert abs(clock.offset_s) <= clock.round_trip_s / 2, "the clock there is read between question and answer"
        with pytest.raises(HostError, match="one says: The Trainyard there cannot do this: fly") as refused:
            lab.ask("fly", PATIENCE_S)
        assert refused.value.failure is Failure.REFUSED
        assert lab.ask("clock", PATIENCE_S), "the connection goes on"


def test_only_answers_are_written_to_the_output(server, script):
    """Whatever a library prints there, on either level, goes to standard error."""
    program = (
        "import os, sys\nfrom core.hosts.agent import server\n"
        "def loud(request):\n"
        "    print('print'); os.write(1, b'write'); os.system('echo child'); return sys.stdin.read()\n"
        "from pathlib import Path\nserver.serve(Path('/nowhere'), {'loud': loud})"
    )
    command = script(f"cd {ROOT} && exec {sys.executable} -c {shlex.quote(program)}")
    with connected(add_host(command=command)) as lab:
        assert lab.ask("loud", PATIENCE_S) == "", "what is asked of the agent is not the input of a library"


def test_noise_of_the_login_shell_is_skipped(server, script):
    """That of bash comes from its settings; other shells have none here."""
    settings = server.folder / "one" / ".bashrc"
    settings.write_text("echo 'Welcome!'; printf 'no end of line'")
    noise = "printf '\\377\\000 %5000s' x; echo '[1, {'; echo 'Be careful.' >&2"
    (report,) = inquiry.ask([add_host(command=script(f'{noise}; exec {TRAINYARD} "$@"'))], devices=True)
    settings.unlink()
    assert report.error is None
    assert len(report.devices.devices) == 2


def test_agent_speaks_english_in_every_language(tmp_path):
    """Its sentences are translated where they are shown."""
    environment = {**os.environ, "LANGUAGE": "zh_CN", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-m", "core.cli", "--runs", tmp_path, "agent", "--stdio"],
        input='{"id": 1, "do": "fly"}\n', cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "The Trainyard there cannot do this: fly." in done.stdout


def test_nothing_is_forwarded_and_no_port_is_opened(server):
    with connected(add_host()) as lab:
        assert lab.ask("clock", PATIENCE_S)
        assert not server.forwarded.exists()
        (agent,) = server.agents()
        for process in (agent, psutil.Process(lab.pid)):
            assert [each for each in process.net_connections() if each.status == psutil.CONN_LISTEN] == []
        assert "SSH_AUTH_SOCK" not in agent.environ()
        assert agent.terminal() is None


@pytest.mark.parametrize("what", ["ssh", "session", "agent"])
def test_connection_that_is_cut_is_told_and_nothing_is_left(server, what):
    with connected(add_host()) as lab:
        stream = lab.request("readings", period_s=0.1)
        lab.wait(lambda: stream.items, PATIENCE_S)
        (agent,) = server.agents()
        if what == "ssh":
            os.kill(lab.pid, signal.SIGKILL)
        elif what == "agent":
            agent.kill()
        else:
            for session in server.process.children():
                with contextlib.suppress(psutil.NoSuchProcess):  # it has ended with the one before
                    session.kill()
        with pytest.raises(HostError, match="was cut, or Trainyard was ended there") as cut:
            lab.wait(lambda: False, PATIENCE_S)
        assert cut.value.failure is Failure.CUT
        with pytest.raises(HostError, match="was cut"):
            lab.poll()
    wait_until(lambda: not agent.is_running(), "the agent to end")


def test_command_that_is_interrupted_leaves_no_ssh(server, script, tmp_path):
    """The host's fake never answers; Ctrl-C ends the command, not its limit of time, and what it started."""
    add_host(command=script(f"touch {tmp_path}/asked; exec cat"))
    program = (
        "import sys; from core.cli import __main__; from core.hosts import connection; "
        f"connection.HELLO_S = {2 * PATIENCE_S}; sys.exit(__main__.main(['hosts']))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "asked").exists, "the host to be asked")
        process.send_signal(signal.SIGINT)
        assert "Interrupted" in process.communicate(timeout=PATIENCE_S)[1]
    wait_until(lambda: not server.sessions(), "the session to end")


def test_command_that_is_killed_leaves_no_ssh_and_no_agent(server, runs_root):
    add_host()
    program = (
        "from core.hosts.connection import Connection; from core.hosts.host_list import load; import time\n"
        f"lab = Connection(load().hosts[0]); lab.wait(lambda: lab.hello, {PATIENCE_S})\n"
        "print(lab.pid, flush=True); time.sleep(3600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        ssh = psutil.Process(int(process.stdout.readline()))
        process.kill()
    wait_until(lambda: not ssh.is_running() and not server.sessions(), "ssh and the agent to end")


# -- all that can go wrong is a sentence with its remedy -------------------------------------------


def error_of(host, failure):
    """Return why a host cannot be asked, which is to fail so."""
    (report,) = inquiry.ask([host], devices=False)
    assert report.error is not None, report
    assert report.error.failure is failure, str(report.error)
    return str(report.error)


@pytest.mark.parametrize(
    ("address", "failure", "sentence"),
    [
        ("unknown", Failure.UNKNOWN_HOST_KEY, r"compare the fingerprint, and answer yes: ssh unknown$"),
        ("changed", Failure.CHANGED_HOST_KEY, r"is not the one that you have accepted.* ssh-keygen -R"),
        ("other-key", Failure.REFUSED_KEY, r"accepts none of your keys\. .*ssh-copy-id other-key$"),
        ("closed", Failure.CLOSED_PORT, r"ssh says: ssh: connect to host 127\.0\.0\.1 port \d+: Connection refused$"),
        ("nowhere", Failure.UNKNOWN_NAME, r"ssh says: ssh: Could not resolve hostname nowhere\.invalid: "),
    ],
)
def test_connection_that_fails_is_explained(server, address, failure, sentence):
    error = error_of(Host(name="lab", address=address), failure)
    assert re.search(sentence, error)
    assert error.startswith(("The host key of lab", "lab (", "No machine is known by the address of lab"))
    known = (server.folder / "no_known_hosts").exists() and (server.folder / "no_known_hosts").read_text()
    assert not known, "no host key is accepted silently"


@pytest.mark.parametrize(
    ("command", "failure", "sentence"),
    [
        ("trainyard-of-nobody", Failure.NO_TRAINYARD, "trainyard-of-nobody starts nothing. Install"),
        ("/nowhere/trainyard", Failure.NO_TRAINYARD, "/nowhere/trainyard starts nothing"),
        ("/etc/passwd", Failure.NO_TRAINYARD, "/etc/passwd starts nothing"),
        ("true", Failure.NO_AGENT, "true ended with exit status 0 and did not answer as Trainyard"),
        ("echo hello", Failure.NO_AGENT, "It wrote: hello agent --stdio"),
        ("#!/nowhere/python\n", Failure.NO_PYTHON, "the Python that"),
        ("#!/usr/bin/env python3.99\n", Failure.NO_PYTHON, "the Python that"),
        (f"exec {sys.executable} -I -S -m trainyard", Failure.NO_TRAINYARD, "uses a Python without Trainyard"),
        ("echo \"trainyard: There is no command 'agent'. See trainyard --help.\" >&2; exit 2", Failure.OTHER_VERSION,
         "The Trainyard on lab is older than this one"),
        ('echo \'{"hello": "trainyard agent", "protocol": 99, "version": "9.0"}\'; exec cat', Failure.OTHER_VERSION,
         r"has Trainyard 9\.0 with protocol 99, which does not fit the one here: \S+ with protocol \d+\. Install"),
        ('echo \'{"hello": "trainyard agent"}\'; exec cat', Failure.NO_AGENT, "Its hello has no version"),
        ("exec head -c 3000000 </dev/zero", Failure.NO_AGENT, "sends makes no sense"),
        ("exec yes 'Welcome to this machine'", Failure.NO_AGENT, r"What lab \(one\) sends makes no sense\."),
        ("exec cat >&2", Failure.NO_ANSWER, "See in a terminal what it waits for: ssh one"),
    ],
)
def test_command_that_is_no_trainyard_is_explained(server, script, monkeypatch, command, failure, sentence):
    if failure is Failure.NO_ANSWER:
        monkeypatch.setattr(connection, "HELLO_S", 1.0)
    made = command if re.fullmatch(r"[\w/ -]+", command) else script(command)
    assert re.search(sentence, error_of(Host(name="lab", address="one", command=made), failure))


HELLO = json.dumps(
    {"hello": "trainyard agent", "protocol": protocol.VERSION, "version": "0", "python": "3", "user": "u", "runs": "/",
     "identity": {"host": "h", "boot": "b", "pid_namespace": "p"}}
)


@pytest.mark.parametrize(
    ("after", "failure", "sentence"),
    [
        ("read line; echo nonsense; exec cat >&2", Failure.NONSENSE, "makes no sense. It is damaged: it is not JSON"),
        ("read line; echo '[]'; exec cat >&2", Failure.NONSENSE, "It is no object of JSON"),
        ('read line; echo \'{"id": 7, "answer": 1}\'; exec cat >&2', Failure.NONSENSE, "answers what was not asked"),
        ("read line; echo '{\"id\": 1}'; exec cat >&2", Failure.NONSENSE, "It has neither an answer nor an error"),
        ('read line; echo \'{"id": 1, "error": {"x": "y"}}\'; exec cat >&2', Failure.NONSENSE, "neither an answer nor"),
        ('read line; echo \'{"id": 1, "answer": {"time": "now"}}\'; exec cat >&2', Failure.NONSENSE, "is no number"),
        ("head -c 2000000 /dev/zero | tr '\\\\0' x; exec cat >&2", Failure.NONSENSE, "of more than 1048576 bytes"),
        ("exit 0", Failure.CUT, "was cut, or Trainyard was ended there"),
        ("exec cat >&2", Failure.NO_ANSWER, "has not answered within 1 s"),
    ],
)
def test_agent_that_goes_wrong_is_explained(server, script, monkeypatch, after, failure, sentence):
    if failure is Failure.NO_ANSWER:
        monkeypatch.setattr(connection, "ANSWER_S", 1.0)
    host = Host(name="lab", address="one", command=script(f"echo '{HELLO}'; {after}"))
    assert sentence in error_of(host, failure)


def test_ssh_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert "apt install openssh-client" in error_of(Host(name="lab", address="one"), Failure.NO_SSH)
