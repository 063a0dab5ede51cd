"""Connections to agents through a real ssh server: what arrives, and what is left when they are cut."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from core.hosts import inquiry
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import Connection
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
