"""All carriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.hosts.carriers import ssh
from core.hosts.carriers.ray import addresses, carrier, cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.devices.device import Device
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
    is_cluster: Callable[[str], bool]
    """Returns whether an address leads to any number of hosts."""
    is_shared: bool
    """Whether the carrier gives devices to other users, off which it must be asked to keep them."""
    option: str
    """The option of `hosts add` that names the `command` of a host."""
    start_with: Callable[[str | None], str]
    """Returns the `command` of a host from what the user has given for it. Raises `ValueError` with a sentence."""
    default_name: Callable[[str], str]
    """Returns the name of a host that is given none, from its address, which is not that of a cluster."""
    find: Callable[[str, str], dict[str, str]]
    """Returns by name the addresses of the hosts behind an address, with a command. Raises `HostError`."""
    command: Callable[[Host, Sequence[Device]], list[str]]
    """Returns the command line that starts the agent. Its input and output are the agent's.

    While it runs, it keeps other users of the carrier off the devices, where the carrier has such users."""
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
        name=carrier.NAME, has=addresses.is_address, address_problem=addresses.problem,
        is_cluster=addresses.is_cluster, is_shared=True, option="--python", start_with=carrier.start_with,
        default_name=addresses.name_of_node, find=cluster.find,
        command=carrier.command, not_started=carrier.not_started, explain_start=carrier.explain_start,
        explain_cut=carrier.explain_cut, explain_silence=carrier.explain_silence,
    ),
    Carrier(
        name=ssh.PROGRAM, has=lambda _: True, address_problem=ssh.address_problem,
        is_cluster=lambda _: False, is_shared=False, option="--command", start_with=ssh.start_with,
        default_name=ssh.default_name,
        find=lambda address, _: {ssh.default_name(address): address},
        command=ssh.command, not_started=ssh.not_started,
        explain_start=ssh.explain_start, explain_cut=ssh.explain_cut, explain_silence=ssh.explain_silence,
    ),
)  # fmt: skip
"""The first that has an address carries it."""


def carrier_of(address: str) -> Carrier:
    """Return the carrier of an address."""
    return next(each for each in CARRIERS if each.has(address))
