"""Start an agent through the user's own ssh, and say in plain words what its errors mean.

ssh reads the user's configuration, keys and agent, and uses a ControlMaster connection that is open. What is set here
keeps it from asking, from accepting a host key, from passing anything on, and from opening a port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.hosts.failures import Failure, HostError, last_line, shown_line
from core.language import tr, tr_noop

if TYPE_CHECKING:
    from core.hosts.host_list import Host

PROGRAM = "ssh"
CONNECT_S = 10
"""Seconds for the connection, before the host key and the login."""
OPTIONS = {
    "BatchMode": "yes",  # it asks nothing
    "StrictHostKeyChecking": "yes",  # also where the user's configuration accepts unknown keys
    "ConnectTimeout": str(CONNECT_S),
    "ConnectionAttempts": "1",
    # A connection that is cut without a word is noticed after 45 s.
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "3",
    "ControlMaster": "no",  # an open connection is used; none is left open for others
    "ClearAllForwardings": "yes",  # forwardings of the user's configuration would open ports
    "RemoteCommand": "none",
    "LogLevel": "ERROR",  # its errors, but not the welcome of the other machine
}
FLAGS = ("-T", "-a", "-x")
"""No terminal there; keys and screen stay here."""
AGENT = "agent --stdio"
SSH_FAILED = 255
"""The exit status of ssh after an error of its own."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit statuses of a shell that cannot start a program."""
ADDRESS = re.compile(
    r"(?:ssh://)?(?:[\w.+][\w.+@-]*@)?(?:[\w.][\w.-]*|[0-9A-Fa-f:]+(?:%\w+)?|\[[0-9A-Fa-f:]+(?:%\w+)?\])(?::\d{1,5})?/?"
)
"""A destination of ssh. No part begins with `-`, which would be an option, or has a character of the shell: with some
versions of ssh, a ProxyCommand passes it on to one."""
MAX_ADDRESS = 255


def address_problem(address: str) -> str:
    """Return why this cannot be the address of a host; the empty string if it can."""
    if address.startswith("ray:"):
        return tr("{address} is a Ray cluster, and this version does not support Ray clusters yet.", address=address)
    if re.fullmatch(r"(?:[^:/@]+@)?[^:/@]+:\d+", address):
        uri = f"ssh://{address}"
        return tr("{address} has a port. Write it as {uri}, or name the port in ~/.ssh/config.",
                  address=address, uri=uri)  # fmt: skip
    if len(address) <= MAX_ADDRESS and ADDRESS.fullmatch(address):
        return ""
    return tr(
        "{address!r} is no address of a machine. Give USER@HOST, ssh://USER@HOST:PORT, or a name of ~/.ssh/config.",
        address=address,
    )


def default_name(address: str) -> str:
    """Return the name of a host that is given none: the first part of its host name, or its whole number."""
    host = address.removeprefix("ssh://").rpartition("@")[2].rstrip("/")
    host = re.sub(r"(?<=\])?:\d+$", "", host) if address.startswith("ssh://") else host
    is_number = re.fullmatch(r"[\d.]+", host) is not None or ":" in host
    return re.sub(r"\W+", "-", host).strip("-_") if ":" in host else host if is_number else host.partition(".")[0]


def command(host: Host) -> list[str]:
    """Return the command line that starts the agent of a host."""
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
    # After `--`, an address is no option. The command is for the shell there.
    return [PROGRAM, *FLAGS, *options, "--", host.address, f"{host.command} {AGENT}"]


def not_started(error: OSError) -> HostError:
    """Return why ssh itself could not be started."""
    if isinstance(error, FileNotFoundError):
        return HostError(
            Failure.NO_SSH,
            tr("The program ssh is not installed here. Install it (Debian, Ubuntu: apt install openssh-client)."),
        )
    return HostError(Failure.NO_SSH, tr("The program ssh cannot be started: {why}.", why=error.strerror))


@dataclass(frozen=True, slots=True)
class _Row:
    """What an error of ssh means."""

    failure: Failure
    pattern: str
    sentence: str
    """Its fields are `name`, `address`, `command` and `line`, the line that the pattern was found in."""


CHANGED_KEY = r"REMOTE HOST IDENTIFICATION HAS CHANGED"
OF_SSH = (
    _Row(
        Failure.CHANGED_HOST_KEY,
        CHANGED_KEY,
        tr_noop(
            "The host key of {name} ({address}) is not the one that you have accepted: the machine was installed anew, "
            "or another one answers in its place. Ask who runs it. If the new key is right, remove the old one with "
            "ssh-keygen -R, and connect once in a terminal: ssh {address}"
        ),
    ),
    _Row(
        Failure.UNKNOWN_HOST_KEY,
        r"Host key verification failed|host key is known for",
        tr_noop(
            "The host key of {name} ({address}) is not known here, and Trainyard accepts none by itself. Connect once "
            "in a terminal, compare the fingerprint, and answer yes: ssh {address}"
        ),
    ),
    _Row(
        Failure.REFUSED_KEY,
        r"Permission denied \(|Too many authentication failures|[Nn]o more authentication methods",
        tr_noop(
            "{name} ({address}) does not let you in: it accepts none of your keys. Load your key (ssh-add), or copy it "
            "there: ssh-copy-id {address}"
        ),
    ),
    _Row(
        Failure.UNKNOWN_NAME,
        r"Could not resolve hostname",
        tr_noop(
            "No machine is known by the address of {name} ({address}). Check it, and the network or VPN that knows it. "
            "ssh says: {line}"
        ),
    ),
    _Row(
        Failure.CLOSED_PORT,
        r"Connection refused",
        tr_noop(
            "{name} ({address}) accepts no connections by ssh. Start the ssh server there (sshd), or name its port in "
            "~/.ssh/config. ssh says: {line}"
        ),
    ),
    _Row(
        Failure.UNREACHABLE,
        r"[Tt]imed out|No route to host|Network is unreachable|Host is down|Network is down",
        tr_noop(
            "{name} ({address}) cannot be reached. Check that it is switched on, its firewall, and the network or VPN. "
            "ssh says: {line}"
        ),
    ),
)
"""Errors of ssh before it has started anything. The first row that fits is meant."""
OF_COMMAND = (
    _Row(
        Failure.NO_PYTHON,
        r"bad interpreter|required file not found|env: \W?python[\d.]*\W*: No such file|python[\d.]*: .*not found",
        tr_noop(
            "On {name}, the Python that {command} needs is missing. Install Trainyard there again, or give the path of "
            "another one: trainyard hosts add {address} --command /PATH/TO/trainyard. The shell there says: {line}"
        ),
    ),
    _Row(
        Failure.NO_TRAINYARD,
        r"No module named '?(?:trainyard|core)\b",
        tr_noop(
            "On {name}, {command} uses a Python without Trainyard. Install it there, or give its path: "
            "trainyard hosts add {address} --command /PATH/TO/trainyard. It says: {line}"
        ),
    ),
    _Row(
        Failure.OTHER_VERSION,
        r"^trainyard: .*\bagent\b",
        tr_noop(
            "The Trainyard on {name} is older than this one and cannot answer other machines. Install the same version "
            "there. It says: {line}"
        ),
    ),
)
"""Errors of the command that ssh has started, whatever its exit status is."""


def explain_start(host: Host, status: int, errors: str, noise: str) -> HostError:
    """Return why no agent came up: ssh has ended with this exit status, negative for a signal, before the hello.

    `errors`, `noise`: what it wrote to standard error and to standard output.
    """
    rows = OF_SSH if status == SSH_FAILED else OF_COMMAND
    for row in rows:
        if found := re.search(row.pattern, errors, re.MULTILINE):
            return _error(row.failure, row.sentence, host, line=_line_at(errors, found.start()))
    line = last_line(errors) or last_line(noise)
    if status == SSH_FAILED:
        said = tr("ssh says: {line}", line=line) if line else tr("ssh does not say why.")
        sentence = tr_noop(
            "The ssh to {name} ({address}) ended before Trainyard answered there. Try it in a terminal: ssh {address}. "
            "{said}"
        )
        return _error(Failure.SSH, sentence, host, said=said)
    if status in {NOT_FOUND, NOT_EXECUTABLE}:
        sentence = tr_noop(
            "On {name}, {command} starts nothing. Install Trainyard there, or give its path: "
            "trainyard hosts add {address} --command /PATH/TO/trainyard. The shell there says: {line}"
        )
        return _error(Failure.NO_TRAINYARD, sentence, host, line=line or "-")
    if status < 0:
        return _error(Failure.CUT, tr_noop("The ssh to {name} ({address}) was ended by a signal. Try again."), host)
    sentence = tr_noop(
        "On {name}, {command} ended with exit status {status} and did not answer as Trainyard. Give the path of "
        "Trainyard there: trainyard hosts add {address} --command /PATH/TO/trainyard. It wrote: {line}"
    )
    return _error(Failure.NO_AGENT, sentence, host, status=status, line=line or "-")


def explain_cut(host: Host, errors: str) -> HostError:
    """Return that an agent was there and ssh has ended."""
    sentence = tr_noop(
        "The connection to {name} ({address}) was cut, or Trainyard was ended there. What trains there goes on. Check "
        "the network, and try again. {said}"
    )
    line = last_line(errors)
    said = tr("ssh says: {line}", line=line) if line else tr("ssh does not say why.")
    return _error(Failure.CUT, sentence, host, said=said)


def explain_silence(host: Host, seconds: float) -> HostError:
    """Return that nothing has come for so long."""
    sentence = tr_noop(
        "{name} ({address}) has not answered within {seconds:g} s. See in a terminal what it waits for: "
        "ssh {address} {command} devices"
    )
    return _error(Failure.NO_ANSWER, sentence, host, seconds=seconds)


def _error(failure: Failure, sentence: str, host: Host, **values: object) -> HostError:
    named = {"name": host.name, "address": host.address, "command": host.command}
    return HostError(failure, tr(sentence, **{**named, **values}))


def _line_at(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    return shown_line(text[start:].partition("\n")[0])
