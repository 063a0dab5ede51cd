"""Addresses of Ray clusters and of their nodes: `ray:auto`, `ray:HOST:PORT`, `ray:HOST:PORT/NODE`."""

from __future__ import annotations

import re

from core.language import tr

PREFIX = "ray:"
AUTO = "auto"
"""The cluster that RAY_ADDRESS names, or the one that was started on this machine."""
SEPARATOR = "/"
MAX_ADDRESS = 255
CLUSTER = re.compile(rf"{AUTO}|(?:[\w.][\w.-]*|\[[0-9A-Fa-f:]+(?:%\w+)?\]):\d{{1,5}}")
NODE = re.compile(r"[\w.][\w.:%+@-]*")


def is_address(address: str) -> bool:
    """Return whether this is meant as the address of a Ray cluster or a node."""
    return address.startswith(PREFIX)


def problem(address: str) -> str:
    """Return why this cannot be the address of a cluster or a node; the empty string if it can."""
    cluster, node = split(address)
    if len(address) <= MAX_ADDRESS and CLUSTER.fullmatch(cluster) and (not node or NODE.fullmatch(node)):
        return ""
    return tr(
        "{address!r} is no address of a Ray cluster. Give ray:auto for the cluster of this machine, or ray:HOST:PORT "
        "as in ray start --address=HOST:PORT.",
        address=address,
    )


def split(address: str) -> tuple[str, str]:
    """Return the cluster as Ray names it, `auto` or `HOST:PORT`, and the node; an empty one for all nodes."""
    cluster, _, node = address.removeprefix(PREFIX).partition(SEPARATOR)
    return cluster, node


def is_cluster(address: str) -> bool:
    """Return whether this is the address of a whole cluster."""
    return not split(address)[1]


def of_node(cluster: str, node: str) -> str:
    """Return the address of a node of a cluster."""
    return f"{PREFIX}{cluster}{SEPARATOR}{node}"


def name_of_node(address: str) -> str:
    """Return the name of a host that is given none, from the address of a node."""
    return default_name(split(address)[1])


def default_name(node: str) -> str:
    """Return the name of a host from that of its node: the first part of a name, or a whole number."""
    if re.fullmatch(r"[\d.]+", node):
        return node
    return re.sub(r"\W+", "-", node if ":" in node else node.partition(".")[0]).strip("-_")
