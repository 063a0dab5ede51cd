"""The command line of ssh, and what its errors and those of the shell there mean. The outputs are recorded ones."""

import pytest

from core.hosts.carrier import Failure
from core.hosts.host_list import Host
from core.hosts.ssh import SSH_FAILED

LAB = Host(name="lab", address="anna@lab.example.org", command="~/bin/trainyard")

UNKNOWN_KEY = """\
No ED25519 host key is known for [127.0.0.1]:58673 and you have requested strict checking.\r
Host key verification failed.\r
"""
CHANGED_KEY = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:cBomOkCUXh9ySd69ROE8YoWNtPWkVElCmpgWBPKfygo.
Please contact your system administrator.
Add correct host key in /home/anna/.ssh/known_hosts to get rid of this message.
Offending ED25519 key in /home/anna/.ssh/known_hosts:1
  remove with:
  ssh-keygen -f "/home/anna/.ssh/known_hosts" -R "[127.0.0.1]:58673"
Host key for [127.0.0.1]:58673 has changed and you have requested strict checking.\r
Host key verification failed.\r
"""
THROUGH_A_JUMP_HOST = """\
ssh: Could not resolve hostname gateway.invalid: Name or service not known\r
kex_exchange_identification: Connection closed by remote host\r
Connection closed by UNKNOWN port 65535\r
"""


@pytest.mark.parametrize(
    ("errors", "failure", "sentence"),
    [
        (UNKNOWN_KEY, Failure.UNKNOWN_HOST_KEY, "answer yes: ssh anna@lab.example.org"),
        (CHANGED_KEY, Failure.CHANGED_HOST_KEY, "is not the one that you have accepted"),
        ("anna@lab: Permission denied (publickey,password).\r\n", Failure.REFUSED_KEY, "ssh-copy-id anna@lab"),
        ("Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures\r\n", Failure.REFUSED_KEY,
         "none of your keys"),
        ("ssh: Could not resolve hostname lab: Name or service not known\r\n", Failure.UNKNOWN_NAME,
         "ssh says: ssh: Could not resolve hostname lab: Name or service not known"),
        (THROUGH_A_JUMP_HOST, Failure.UNKNOWN_NAME, "ssh says: ssh: Could not resolve hostname gateway.invalid: "),
        ("ssh: connect to host 127.0.0.1 port 22: Connection refused\r\n", Failure.CLOSED_PORT, "or name its port"),
        ("Connection timed out during banner exchange\r\nConnection to 10.255.255.1 port 22 timed out\r\n",
         Failure.UNREACHABLE, "ssh says: Connection timed out during banner exchange"),
        ("ssh: connect to host 10.0.0.7 port 22: No route to host\r\n", Failure.UNREACHABLE, "No route to host"),
        ("ssh: connect to host lab port 22: Connection timed out\r\n", Failure.UNREACHABLE, "switched on"),
        ("hostname contains invalid characters\r\n", Failure.SSH, "ssh says: hostname contains invalid characters"),
        ("/home/anna/.ssh/config: terminating, 1 bad configuration options\r\n", Failure.SSH, "1 bad configuration"),
        ("", Failure.SSH, "Try it in a terminal: ssh anna@lab.example.org. ssh does not say why."),
    ],
)
def test_error_of_ssh_is_explained(errors, failure, sentence):
    error = LAB.carrier.explain_start(SSH_FAILED, errors, "")
    assert error.failure is failure
    assert sentence in str(error)
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("status", "errors", "failure"),
    [
        (127, "bash: line 1: trainyard: command not found\n", Failure.NO_TRAINYARD),
        (127, "sh: 1: trainyard: not found\n", Failure.NO_TRAINYARD),
        (127, "fish: Unknown command: trainyard\n", Failure.NO_TRAINYARD),
        (127, "zsh:1: command not found: trainyard\n", Failure.NO_TRAINYARD),
        (127, "bash: Zeile 1: trainyard: Kommando nicht gefunden.\n", Failure.NO_TRAINYARD),
        (127, "bash: line 1: /home/anna/bin/trainyard: No such file or directory\n", Failure.NO_TRAINYARD),
        (126, "bash: line 1: /etc/passwd: Permission denied\n", Failure.NO_TRAINYARD),
        (127, "bash: line 1: /home/anna/bin/trainyard: cannot execute: required file not found\n", Failure.NO_PYTHON),
        (126, "bash: /home/anna/bin/trainyard: /opt/python: bad interpreter: No such file or directory\n",
         Failure.NO_PYTHON),
        (127, "/usr/bin/env: 'python3.99': No such file or directory\n", Failure.NO_PYTHON),
        (127, "/usr/bin/env: ‘python3’: No such file or directory\n", Failure.NO_PYTHON),
        (127, "bash: line 1: python3: command not found\n", Failure.NO_PYTHON),
        (1, "/usr/bin/python3: No module named trainyard\n", Failure.NO_TRAINYARD),
        (1, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'core'\n", Failure.NO_TRAINYARD),
        (2, "trainyard: There is no command 'agent'. See trainyard --help.\n", Failure.OTHER_VERSION),
        (1, "Traceback (most recent call last):\nMemoryError\n", Failure.NO_AGENT),
        (0, "", Failure.NO_AGENT),
        (-9, "", Failure.CUT),
    ],
)
def test_error_of_what_was_started_is_explained(status, errors, failure):
    error = LAB.carrier.explain_start(status, errors, "")
    assert error.failure is failure
    assert "lab" in str(error)
    assert ("--command" in str(error)) == (failure in {Failure.NO_TRAINYARD, Failure.NO_PYTHON, Failure.NO_AGENT})


def test_what_the_other_side_wrote_cannot_control_a_terminal():
    error = LAB.carrier.explain_start(1, "\x1b[2J\x1b]0;title\x07 gone\n\n", "")
    assert "?[2J?]0;title? gone" in str(error)
    assert len(str(LAB.carrier.explain_start(1, "x" * 100_000, ""))) < 1000
    assert "Welcome" in str(LAB.carrier.explain_start(1, "", "Welcome\n"))


def test_ssh_neither_asks_nor_accepts_a_key_nor_passes_anything_on():
    words = LAB.carrier.command_line(())
    assert words[-3:] == ["--", "anna@lab.example.org", "~/bin/trainyard agent --stdio"]
    options = {words[at + 1] for at, word in enumerate(words) if word == "-o"}
    assert options >= {
        "BatchMode=yes", "StrictHostKeyChecking=yes", "ClearAllForwardings=yes", "ControlMaster=no",
        "ConnectTimeout=10",
    }
    assert {"-T", "-a", "-x"} <= {*words}
