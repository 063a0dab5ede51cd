"""Where processes listen: the interface that ranks of one machine are given, and the list of sockets of the tests."""

from __future__ import annotations

import os
import socket

import pytest

from core.launchers.local import HOST, loopback_variables
from tests.support.listening import beyond_loopback, listening


def test_ranks_are_given_the_loopback_interface() -> None:
    assert loopback_variables({}) == {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "=lo"}


@pytest.mark.parametrize(
    ("chosen", "given"),
    [
        ({"GLOO_SOCKET_IFNAME": "eth0"}, {"NCCL_SOCKET_IFNAME": "=lo"}),
        ({"NCCL_SOCKET_IFNAME": "eth"}, {"GLOO_SOCKET_IFNAME": "lo"}),
        ({"NCCL_SOCKET_FAMILY": "AF_INET6"}, {"GLOO_SOCKET_IFNAME": "lo"}),
    ],
)
def test_interfaces_that_the_user_has_chosen_are_kept(chosen: dict[str, str], given: dict[str, str]) -> None:
    assert loopback_variables(chosen) == given


def test_no_interface_is_named_where_the_loopback_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "loop"), (2, "eth0")])
    assert loopback_variables({}) == {}


def test_listening_sockets_of_a_process_are_listed_with_their_addresses() -> None:
    with socket.create_server((HOST, 0)) as near, socket.create_server(("", 0)) as far, socket.socket() as silent:
        silent.bind((HOST, 0))
        found = listening([os.getpid()])
        assert near.getsockname() in found
        assert silent.getsockname() not in found
        assert far.getsockname() in beyond_loopback(found)
        assert near.getsockname() not in beyond_loopback(found)
