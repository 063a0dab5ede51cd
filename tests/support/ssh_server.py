"""A real ssh server on this machine, with two hosts: a port and a home each. Nothing of the user's own ssh is used."""

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from core.hosts import connection, host_list
from core.hosts.host_list import Host
from tests.support.packages import NEEDS, SSH, path_of
from tests.support.waiting import PATIENCE_S, wait_until

TRAINYARD = Path(sys.executable).with_name("trainyard")
"""What starts Trainyard on the hosts."""
TOLD = re.compile("Server listening on|Bind to port")
"""What the server says of each port: it goes on if it has only one of two."""
SECTIONS = """
Host two
    Port {two}
Host other-key
    IdentityFile {folder}/other_key
Host unknown
    UserKnownHostsFile {folder}/no_known_hosts
Host changed
    UserKnownHostsFile {folder}/changed_known_hosts
Host closed
    Port {closed}
Host nowhere
    HostName nowhere.invalid
Host * !other-key
    IdentityFile {folder}/key
Host *
    HostName 127.0.0.1
    Port {one}
    User {user}
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile none
    SendEnv TESTS_OF_TRAINYARD
    LocalForward {folder}/forwarded 127.0.0.1:{one}
    StrictHostKeyChecking accept-new
"""
"""The configuration of ssh, in which the first value counts. Trainyard must override the last two."""
SERVER = """
ListenAddress 127.0.0.1:{one}
ListenAddress 127.0.0.1:{two}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
KexAlgorithms curve25519-sha256
AcceptEnv TESTS_OF_TRAINYARD
{penalties}
Match LocalPort {one}
    SetEnv HOME={folder}/one TRAINYARD_CPU_DEVICES=2 TRAINYARD_QUEUE_DIR={folder}/line
Match LocalPort {two}
    SetEnv HOME={folder}/two TRAINYARD_CPU_DEVICES=1 TRAINYARD_QUEUE_DIR={folder}/line
"""
"""The settings of the server. This key exchange takes less processor time than OpenSSH's default."""


def add_host(name: str = "one", command: object = TRAINYARD) -> Host:
    """Add a host of `SECTIONS` to the user's list without asking it."""
    host = Host(name=name, address=name, command=str(command))
    host_list.add(host)
    return host


@dataclass(frozen=True)
class SshServer:
    """A server that runs, and the programs and files around it."""

    folder: Path
    """Its homes are `one` and `two`; `bin` has an `ssh` that knows the hosts of `SECTIONS`."""
    process: psutil.Process

    @property
    def forwarded(self) -> Path:
        """The socket that the configuration of ssh would forward."""
        return self.folder / "forwarded"

    def sessions(self) -> list[psutil.Process]:
        """Return the processes of all connections."""
        try:
            return self.process.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def agents(self) -> list[psutil.Process]:
        """Return the agents that run."""
        return [each for each in self.sessions() if "--stdio" in _words(each) and "python" in _words(each)[0]]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() or [""]
    except psutil.Error:  # it has ended
        return [""]


@pytest.fixture(scope="module")
def ssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """A real ssh server with two hosts."""
    yield from run_server(tmp_path_factory.mktemp("ssh"))


@pytest.fixture
def server(ssh_server: SshServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """The server, with its `ssh` in front of the PATH. No session is left at the end.

    Its agents may take their time: those that never answer have a limit of their test.
    """
    monkeypatch.setenv("PATH", str(ssh_server.folder / "bin"), prepend=os.pathsep)
    for limit in ("HELLO_S", "ANSWER_S"):
        monkeypatch.setattr(connection, limit, PATIENCE_S)
    yield ssh_server
    wait_until(lambda: not ssh_server.sessions(), "the sessions of the ssh server to end")


def run_server(folder: Path) -> Iterator[SshServer]:
    """Run a server until the generator is closed. Skips the test where there is none."""
    sshd = path_of("sshd")
    if sshd is None or shutil.which("ssh") is None:
        pytest.skip(f"{NEEDS}{SSH.names}")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd does not start without it
    for name in ("one", "two", "bin"):
        (folder / name).mkdir()
    for name in ("key", "other_key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as closed:
        # Bound, but not listening: a connection is refused, and no other program gets the port.
        closed.bind(("127.0.0.1", 0))
        while True:
            process = _start(sshd, folder, closed.getsockname()[1], *_free_ports(2))
            try:
                wait_until(
                    lambda: len(TOLD.findall(_log(folder))) == 2 or process.poll() is not None,  # noqa: B023
                    "the ssh server to have both ports, or not",
                )
                if "Bind to port" not in _log(folder):  # else another program has taken one meanwhile
                    assert process.poll() is None, _log(folder)
                    yield SshServer(folder, psutil.Process(process.pid))
                    return
            finally:
                process.terminate()
                process.wait()


def _start(sshd: str, folder: Path, closed: int, one: int, two: int) -> subprocess.Popen[bytes]:
    """Start a server with these ports, and configure the clients."""
    for name, key in (("known_hosts", "host_key"), ("changed_known_hosts", "other_key")):
        public = " ".join((folder / f"{key}.pub").read_text().split()[:2])
        (folder / name).write_text("".join(f"[127.0.0.1]:{port} {public}\n" for port in (one, two)))
    values = {"folder": folder, "one": one, "two": two, "closed": closed}
    (folder / "ssh_config").write_text(SECTIONS.format(user=getpass.getuser(), **values))
    ssh = folder / "bin" / "ssh"
    # The first value of an option counts: on a slow machine the server takes longer than Trainyard would wait.
    patient = f"-o ConnectTimeout={PATIENCE_S:.0f}"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config {patient} "$@"\n')
    ssh.chmod(0o755)
    command = [sshd, "-D", "-e", "-f", _server_settings(sshd, folder, values)]
    with (folder / "sshd.log").open("w") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)


def _log(folder: Path) -> str:
    return (folder / "sshd.log").read_text()


def _server_settings(sshd: str, folder: Path, values: dict[str, object]) -> Path:
    """Write the settings of a server that lets a test fail to log in as often as it likes."""
    path = folder / "sshd_config"
    for penalties in ("PerSourcePenalties no", ""):  # since OpenSSH 9.8
        path.write_text(SERVER.format(penalties=penalties, **values))
        checked = subprocess.run([sshd, "-t", "-f", path], capture_output=True, text=True, check=False)
        if not checked.returncode:
            return path
    pytest.skip(f"the ssh server does not start: {checked.stderr.strip()}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
