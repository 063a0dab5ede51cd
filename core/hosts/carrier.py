"""How an agent is started on a host, and what can go wrong: a command line whose input and output lead to the agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar

from core.devices.device import Device
from core.errors import RunError
from core.language import tr
from core.system.helper_process import clean_environment
from core.text import one_line, replace_control_characters

LINE_LENGTH = 200


class Failure(Enum):
    """Why a host cannot be asked; the values are for programs."""

    NO_SSH = "no ssh"
    UNKNOWN_NAME = "unknown name"
    UNREACHABLE = "unreachable"
    CLOSED_PORT = "closed port"
    REFUSED_KEY = "refused key"
    UNKNOWN_HOST_KEY = "unknown host key"
    CHANGED_HOST_KEY = "changed host key"
    SSH = "ssh"
    """Any other error of ssh."""
    NO_RAY = "no ray"
    NO_CLUSTER = "no cluster"
    REFUSED_TOKEN = "refused token"  # noqa: S105 (no password)
    NOT_IN_CLUSTER = "not in the cluster"
    """This machine is no node of the Ray cluster."""
    NO_NODE = "no node"
    BUSY = "busy"
    """Others use the devices of a run."""
    RAY = "ray"
    """Any other error of Ray."""
    NO_TRAINYARD = "no trainyard"
    NO_PYTHON = "no python"
    OTHER_VERSION = "other version"
    NO_AGENT = "no agent"
    """What was started there is no agent, or does not come up."""
    NO_ANSWER = "no answer"
    NONSENSE = "nonsense"
    """It answers what is no answer."""
    CUT = "cut"
    REFUSED = "refused"
    """The agent said why it cannot do what it was asked."""


class HostError(RunError):
    """A host cannot be asked. `str()` is a sentence for users with the remedy."""

    def __init__(self, failure: Failure, sentence: str) -> None:
        super().__init__(sentence)
        self.failure = failure


def last_line(text: str) -> str:
    """Return the last line with something in it, fit to be shown."""
    return next((shown for line in reversed(text.splitlines()) if (shown := shown_line(line))), "")


def shown_line(line: str) -> str:
    """Return a line that the other side wrote, fit to be shown."""
    return one_line(replace_control_characters(line.replace("\r", "")), LINE_LENGTH)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an error means."""

    failure: Failure
    sentence: str
    """Its fields are `name`, `address` and `command` of the host, and what the carrier gives in addition."""
    pattern: str = ""
    """A regular expression that finds the error in the output of the command line; an empty one fits any output."""


class Carrier(ABC):
    """The way to a host, or to the hosts of a cluster. All sentences name the host and the remedy."""

    prefix: ClassVar[str] = ""
    """How the addresses of this carrier begin."""
    option: ClassVar[str]
    """The option of `hosts add` that names the `command` of a host."""
    is_shared: ClassVar[bool] = False
    """Whether the carrier gives devices to several users, so that a run must reserve its own."""
    cwd: ClassVar[Path] = Path("/")
    """The working folder of the command line."""
    is_cluster = False
    """Whether the address leads to any number of hosts."""

    def __init__(self, address: str, name: str = "", command: str = "") -> None:
        """`name`, `command`: those of the host, where there is one already."""
        self.address, self.name, self.command = address, name or address, command

    @staticmethod
    def environment() -> dict[str, str]:
        """Return the environment of the process that the command line starts."""
        return clean_environment()

    @property
    @abstractmethod
    def address_problem(self) -> str:
        """Why this cannot be an address; the empty string if it can."""

    @property
    @abstractmethod
    def default_name(self) -> str:
        """The name of a host that is given none. `address` is not that of a cluster."""

    @staticmethod
    @abstractmethod
    def start_with(given: str | None) -> str:
        """Return the `command` of a host from what the user has given. Raises `ValueError` with a sentence."""

    def find(self) -> dict[str, str]:
        """Return by name the addresses of the hosts behind the address. Raises `HostError`."""
        return {self.default_name: self.address}

    @abstractmethod
    def command_line(self, devices: Sequence[Device]) -> list[str]:
        """Return the command line that starts the agent, with the agent's input and output.

        While it runs, a shared carrier reserves these devices.
        """

    @abstractmethod
    def not_started(self, error: OSError) -> HostError:
        """Return why the command line could not be started."""

    @abstractmethod
    def explain_start(self, status: int, errors: str, noise: str) -> HostError:
        """Return why the command line has ended before the agent's hello.

        `status`: its exit status, negative for a signal. `errors`, `noise`: its standard error and standard output.
        """

    @abstractmethod
    def explain_cut(self, errors: str) -> HostError:
        """Return why the command line has ended after the agent's hello, from its standard error."""

    @abstractmethod
    def explain_silence(self, seconds: float) -> HostError:
        """Return that nothing has arrived for so many seconds."""

    def _error(self, found: Explanation, **values: object) -> HostError:
        named = {"name": self.name, "address": self.address, "command": self.command}
        return HostError(found.failure, tr(found.sentence, **{**named, **values}))
