"""Where the ranks of several machines meet: an address of this one, and where needed one that each rank listens on."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing

from core.errors import RunError
from core.hosts.carrier import HostError
from core.hosts.parts.part_link import OwnAddress, PartLink, ask_all
from core.language import tr, tr_noop
from core.launchers.local import interfaces, listening, reach
from core.schema.event_kinds import Notice, Record

ADDRESS_VARIABLE = "TRAINYARD_DATA_ADDRESS"
"""The variable with the address of this machine at which the ranks of all machines meet."""
HERE = ""
"""What this machine is called among the names of hosts."""
LOOPBACK = "127."
REACH_S = 5.0
"""Longest wait for a connection to another machine of the run."""
TRUSTED = tr_noop(
    "The ranks of this run exchange data over {interface} without encryption: use it in a trusted network only."
)


class Meeting:
    """Where the ranks of a run meet."""

    def __init__(self, links: Mapping[str, PartLink], write: Callable[[Record], None]) -> None:
        """Find an address of this machine that all others reach. Raises `RunError` if there is none.

        `links`: by the names of the machines. `write`: writes an event.
        """
        self._links = links
        self.address, self._own = _find(links)
        write(Notice(text=tr(TRUSTED, interface=self._own[HERE].interface)))
        self._kept = ExitStack()
        """The ports that are kept for ranks of this machine."""

    @property
    def interfaces(self) -> dict[str, str]:
        """By machine, the network interface that leads to the others."""
        return {name: own.interface for name, own in self._own.items()}

    def keep_ports(self, ranks: Mapping[str, int]) -> dict[str, list[str]]:
        """Keep a port for each rank until `release`; return by machine `ADDRESS:PORT` for each of its ranks.

        `ranks`: their number by machine. Raises `RunError` unless each machine reaches the addresses of all others.
        """
        try:
            here = self._kept.enter_context(listening(ranks[HERE]))
        except OSError as error:
            raise RunError(tr("No port is free on this machine: {why}.", why=error.strerror or error)) from error
        ports = {HERE: here, **{name: link.listen(ranks[name]) for name, link in self._links.items()}}
        for name, found in ports.items():
            for port in found:
                self._check(name, self._own[name].address, port)
        return {name: [f"{self._own[name].address}:{port}" for port in found] for name, found in ports.items()}

    def release(self) -> None:
        """Leave the kept ports to the ranks, which start now. Raises `HostError`."""
        for link in self._links.values():
            link.end_listening()
        self._kept.close()

    def close(self) -> None:
        """Give up the ports that are kept on this machine. Those of others end with their connections."""
        self._kept.close()

    def _check(self, owner: str, address: str, port: int) -> None:
        """Check that all other machines reach a port of this one. Raises `RunError`."""
        for name in self._own:
            if name == owner:
                continue
            try:
                if name == HERE:
                    reach(address, port, REACH_S)
                else:
                    self._links[name].reach(address, port)
            except (HostError, OSError) as error:
                why = getattr(error, "strerror", None) or error
                raise RunError(tr(
                    "{machine} does not reach {owner} at {address}:{port}. {why} Each rank connects to all others: "
                    "open the firewalls of these machines for each other, for all ports. {variable} names another "
                    "address of this machine.", machine=name or tr("this machine"), owner=owner or tr("this machine"),
                    address=address, port=port, why=str(why).rstrip(".") + ".", variable=ADDRESS_VARIABLE,
                )) from error


def _find(links: Mapping[str, PartLink]) -> tuple[str, dict[str, OwnAddress]]:
    """Return the address at which the ranks meet, and by machine from where it reaches that."""
    problem = ""
    for interface, address in _candidates(links):
        try:
            listener = socket.create_server((address, 0))
        except OSError as error:
            problem = problem or tr("{address} cannot be used here: {why}.", address=address, why=error.strerror)
            continue
        with closing(listener):
            port = listener.getsockname()[1]
            try:
                own = ask_all(links, lambda link: link.reach(address, port))  # noqa: B023 (all are waited for)
            except HostError as error:
                problem = problem or str(error)
                continue
        return f"{address}:{port}", {HERE: OwnAddress(interface, address), **own}
    raise RunError(tr(
        "The machines of this run cannot connect to each other. {problem} Open the firewall of this machine "
        "for them, or name another of its addresses in {variable}.",
        problem=problem or tr("This machine has no network address."), variable=ADDRESS_VARIABLE,
    ))


def _candidates(links: Mapping[str, PartLink]) -> list[tuple[str, str]]:
    """Return interfaces and addresses of this machine at which ranks may meet, the likeliest first."""
    own = {address: name for name, address in interfaces().items()}
    if named := os.environ.get(ADDRESS_VARIABLE):
        return [(own.get(named, ""), named)]
    seen_by_hosts = ask_all(links, lambda link: link.peer()).values()
    outward = [address for address in own if not address.startswith(LOOPBACK)]
    wanted = dict.fromkeys([*(each for each in seen_by_hosts if each in own), *outward])
    return [(own[address], address) for address in wanted]
