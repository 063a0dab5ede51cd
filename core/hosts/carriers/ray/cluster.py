"""The nodes of a cluster, as hosts."""

from __future__ import annotations

import collections
import subprocess
from typing import Any

from core.hosts.carriers.ray import addresses, carrier
from core.hosts.failures import Failure, HostError, last_line
from core.language import tr
from core.schema.files import parse_json
from core.system.helper_process import HelperProcess

LIST_S = 30.0
"""Longest wait for the list of nodes."""
ID_CHARACTERS = 6
"""Of a node's id, in the name of a host."""


def find(address: str, python: str) -> dict[str, str]:
    """Return by name the addresses of the hosts behind an address: one node, or all of a cluster.

    Asks the cluster for its nodes. Raises `HostError`.
    """
    cluster, node = addresses.split(address)
    if node:
        return {addresses.name_of_node(address): address}
    return hosts_of(cluster, _nodes(address, python))


def hosts_of(cluster: str, nodes: list[dict[str, str]]) -> dict[str, str]:
    """Return by name the addresses of nodes.

    A node is found by the name that its user has given to it, since it has another id after each start. Ray names
    others after their address, which two nodes of one machine share: these are found by their ids.
    """
    names = collections.Counter(each["name"] for each in nodes)
    machines = collections.Counter(each["machine"] for each in nodes)
    found: dict[str, str] = {}
    for each in nodes:
        is_unique = names[each["name"]] == 1 and addresses.NODE.fullmatch(each["name"]) is not None
        is_named = is_unique and each["name"] != each["ip"]
        name = addresses.default_name(each["name"] if is_named else each["machine"] or each["ip"])
        if name in found or (not is_named and machines[each["machine"]] > 1):
            name = f"{name}-{each['id'][:ID_CHARACTERS]}"
        found[name] = addresses.of_node(cluster, each["name"] if is_unique else each["id"])
    return found


def _nodes(address: str, python: str) -> list[dict[str, str]]:
    try:
        process = HelperProcess(carrier.nodes_command(address, python), stderr=subprocess.PIPE)
    except OSError as error:
        raise carrier.not_started(error) from error
    with process:
        try:
            process.wait(LIST_S)
        except TimeoutError:
            raise carrier.silence(address, LIST_S) from None
        except ValueError:
            pass  # it wrote more than can be: no list of nodes
        found = _read(bytes(process.output))
        if found:
            return found
        errors = process.errors.decode(errors="replace")
    if reported := carrier.explain_report(address, address, python, errors):
        raise reported
    sentence = tr("{python} lists no nodes of the Ray cluster {address}. It says: {line}", python=python,
                  address=address, line=last_line(errors) or "-")  # fmt: skip
    raise HostError(Failure.RAY, sentence)


def _read(output: bytes) -> list[dict[str, str]]:
    """Return the nodes that the driver has listed; none if that is no list of nodes."""
    try:
        found: Any = parse_json(output)
        return [{name: str(each[name]) for name in ("id", "name", "ip", "machine")} for each in found]
    except (ValueError, TypeError, LookupError):
        return []
