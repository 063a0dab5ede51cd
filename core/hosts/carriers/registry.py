"""All carriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.hosts.carriers import ssh

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.hosts.failures import HostError
    from core.hosts.host_list import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """A way to an agent on another machine. All sentences name the host and the remedy."""

    name: str
    has: Callable[[str], bool]
    """Returns whether an address is one of this carrier's."""
    address_problem: Callable[[str], str]
    """Returns why an address cannot be; the empty string if it can."""
    default_name: Callable[[str], str]
    """Returns the name of a host that is given none, from its address."""
    command: Callable[[Host], list[str]]
    """Returns the command line that starts the agent. Its input and output are the agent's."""
    not_started: Callable[[OSError], HostError]
    """Returns why the command line could not be started."""
    explain_start: Callable[[Host, int, str, str], HostError]
    """Returns why it has ended before a hello, from its exit status, its standard error and its standard output."""
    explain_cut: Callable[[Host, str], HostError]
    """Returns that it has ended after a hello, from its standard error."""
    explain_silence: Callable[[Host, float], HostError]
    """Returns that nothing has come for so many seconds."""


CARRIERS = (
    Carrier(
        name=ssh.PROGRAM, has=lambda _: True,
        address_problem=ssh.address_problem, default_name=ssh.default_name,
        command=ssh.command, not_started=ssh.not_started,
        explain_start=ssh.explain_start, explain_cut=ssh.explain_cut, explain_silence=ssh.explain_silence,
    ),
)  # fmt: skip
"""The first that has an address carries it."""


def carrier_of(address: str) -> Carrier:
    """Return the carrier of an address."""
    return next(each for each in CARRIERS if each.has(address))
