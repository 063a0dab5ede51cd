"""All that can go wrong with a host, through a real ssh server: each is a sentence with its remedy."""

from __future__ import annotations

import json
import re
import sys

import pytest

from core.hosts import connection, inquiry, protocol
from core.hosts.carrier import Failure
from core.hosts.host_list import Host


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
