"""Start an agent through the user's own ssh, and say in plain words what its errors mean.

ssh reads the user's configuration, keys and agent, and uses a ControlMaster connection that is open. What is set here
keeps it from asking, from accepting a host key, from passing anything on, and from opening a port.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.devices.device import Device
from core.hosts.carrier import Carrier, Explanation, Failure, HostError, last_line, shown_line
from core.language import tr, tr_noop
from core.system.installation import COMMAND

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


OF_SSH = (
    Explanation(Failure.CHANGED_HOST_KEY, tr_noop(
        "The host key of {name} ({address}) is not the one that you have accepted: the machine was reinstalled, "
        "or another one answers in its place. Ask who runs it. If the new key is right, remove the old one with "
        "ssh-keygen -R, and connect once in a terminal: ssh {address}"
    ), r"REMOTE HOST IDENTIFICATION HAS CHANGED"),
    Explanation(Failure.UNKNOWN_HOST_KEY, tr_noop(
        "The host key of {name} ({address}) is not known here, and Trainyard accepts none by itself. Connect once "
        "in a terminal, compare the fingerprint, and answer yes: ssh {address}"
    ), r"Host key verification failed|host key is known for"),
    Explanation(Failure.REFUSED_KEY, tr_noop(
        "{name} ({address}) does not let you in: it accepts none of your keys. Load your key (ssh-add), or copy it "
        "there: ssh-copy-id {address}"
    ), r"Permission denied \(|Too many authentication failures|[Nn]o more authentication methods"),
    Explanation(Failure.UNKNOWN_NAME, tr_noop(
        "No machine is known by the address of {name} ({address}). Check it, and the network or VPN that knows it. "
        "ssh says: {line}"
    ), r"Could not resolve hostname"),
    Explanation(Failure.CLOSED_PORT, tr_noop(
        "{name} ({address}) accepts no connections by ssh. Start the ssh server there (sshd), or name its port in "
        "~/.ssh/config. ssh says: {line}"
    ), r"Connection refused"),
    Explanation(Failure.UNREACHABLE, tr_noop(
        "{name} ({address}) cannot be reached. Check that it is switched on, its firewall, and the network or VPN. "
        "ssh says: {line}"
    ), r"[Tt]imed out|No route to host|Network is unreachable|Host is down|Network is down"),
    Explanation(Failure.SSH, tr_noop(
        "The ssh to {name} ({address}) ended before Trainyard answered there. Try it in a terminal: ssh {address}. "
        "{said}"
    )),
)
"""Errors of ssh before it has started anything. The first row that fits is meant."""
OF_COMMAND = (
    Explanation(Failure.NO_PYTHON, tr_noop(
        "On {name}, the Python that {command} needs is missing. Install Trainyard there again, or give the path of "
        "another one: trainyard hosts add {address} --command /PATH/TO/trainyard. The shell there says: {line}"
    ), r"bad interpreter|required file not found|env: \W?python[\d.]*\W*: No such file|python[\d.]*: .*not found"),
    Explanation(Failure.NO_TRAINYARD, tr_noop(
        "On {name}, {command} uses a Python without Trainyard. Install it there, or give its path: "
        "trainyard hosts add {address} --command /PATH/TO/trainyard. It says: {line}"
    ), r"No module named '?(?:trainyard|core)\b"),
    Explanation(Failure.OTHER_VERSION, tr_noop(
        "The Trainyard on {name} is older than this one and cannot answer other machines. Install the same version "
        "there. It says: {line}"
    ), r"^trainyard: .*\bagent\b"),
)
"""Errors of the command that ssh has started, whatever its exit status is."""
NOTHING_STARTED = Explanation(Failure.NO_TRAINYARD, tr_noop(
    "On {name}, {command} starts nothing. Install Trainyard there, or give its path: "
    "trainyard hosts add {address} --command /PATH/TO/trainyard. The shell there says: {line}"
))
SIGNAL = Explanation(Failure.CUT, tr_noop("The ssh to {name} ({address}) was ended by a signal. Try again."))
OTHER_END = Explanation(Failure.NO_AGENT, tr_noop(
    "On {name}, {command} ended with exit status {status} and did not answer as Trainyard. Give the path of "
    "Trainyard there: trainyard hosts add {address} --command /PATH/TO/trainyard. It wrote: {line}"
))
CUT = Explanation(Failure.CUT, tr_noop(
    "The connection to {name} ({address}) was cut, or Trainyard was ended there. What trains there goes on. Check "
    "the network, and try again. {said}"
))
SILENCE = Explanation(Failure.NO_ANSWER, tr_noop(
    "{name} ({address}) has not answered within {seconds:g} s. See in a terminal what it waits for: "
    "ssh {address} {command} devices"
))


class SshCarrier(Carrier):
    """The user's own ssh."""

    option = "--command"

    @property
    def address_problem(self) -> str:
        if re.fullmatch(r"(?:[^:/@]+@)?[^:/@]+:\d+", self.address):
            uri = f"ssh://{self.address}"
            return tr("{address} has a port. Write it as {uri}, or name the port in ~/.ssh/config.",
                      address=self.address, uri=uri)
        if len(self.address) <= MAX_ADDRESS and ADDRESS.fullmatch(self.address):
            return ""
        return tr(
            "{address!r} is no address of a machine. Give USER@HOST, ssh://USER@HOST:PORT, or a name of ~/.ssh/config.",
            address=self.address,
        )

    @property
    def default_name(self) -> str:
        """The first part of its host name, or its whole number."""
        host = self.address.removeprefix("ssh://").rpartition("@")[2].rstrip("/")
        host = re.sub(r"(?<=\])?:\d+$", "", host) if self.address.startswith("ssh://") else host
        is_number = re.fullmatch(r"[\d.]+", host) is not None or ":" in host
        return re.sub(r"\W+", "-", host).strip("-_") if ":" in host else host if is_number else host.partition(".")[0]

    @staticmethod
    def start_with(given: str | None) -> str:
        """Return what starts Trainyard on a host, as the shell there reads it."""
        return COMMAND if given is None else given

    def command_line(self, devices: Sequence[Device]) -> list[str]:
        """See `Carrier`. ssh reserves no devices."""
        del devices
        options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
        # After `--`, an address is no option. The command is for the shell there.
        return [PROGRAM, *FLAGS, *options, "--", self.address, f"{self.command} {AGENT}"]

    def not_started(self, error: OSError) -> HostError:
        if isinstance(error, FileNotFoundError):
            text = tr("The program ssh is not installed here. Install it (Debian, Ubuntu: apt install openssh-client).")
        else:
            text = tr("The program ssh cannot be started: {why}.", why=error.strerror)
        return HostError(Failure.NO_SSH, text)

    def explain_start(self, status: int, errors: str, noise: str) -> HostError:
        last = SIGNAL if status < 0 else NOTHING_STARTED if status in {NOT_FOUND, NOT_EXECUTABLE} else OTHER_END
        rows = OF_SSH if status == SSH_FAILED else (*OF_COMMAND, last)
        row, at = next((row, at) for row in rows if (at := re.search(row.pattern, errors, re.MULTILINE)))
        line = last_line(errors) or last_line(noise)
        if row.pattern:
            line = shown_line(errors[errors.rfind("\n", 0, at.start()) + 1 :].partition("\n")[0])
        return self._error(row, status=status, line=line or "-", said=_said(line))

    def explain_cut(self, errors: str) -> HostError:
        return self._error(CUT, said=_said(last_line(errors)))

    def explain_silence(self, seconds: float) -> HostError:
        return self._error(SILENCE, seconds=seconds)


def _said(line: str) -> str:
    return tr("ssh says: {line}", line=line) if line else tr("ssh does not say why.")
