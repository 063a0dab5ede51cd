"""Where processes listen: the interface that ranks of one machine are given, and the list of sockets of the tests."""

from __future__ import annotations

import os
import socket

import pytest

from core.launchers.local import HOST, loopback_variables
from tests.support.listening import beyond_loopback, listening


@pytest.mark.parametrize(
    ("chosen", "given"),
    [
        ({}, {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "=lo"}),
        # what the user has chosen is kept
        ({"GLOO_SOCKET_IFNAME": "eth0"}, {"NCCL_SOCKET_IFNAME": "=lo"}),
        ({"NCCL_SOCKET_IFNAME": "eth"}, {"GLOO_SOCKET_IFNAME": "lo"}),
        ({"NCCL_SOCKET_FAMILY": "AF_INET6"}, {"GLOO_SOCKET_IFNAME": "lo"}),
    ],
)
def test_ranks_are_given_the_loopback_interface(monkeypatch, chosen, given) -> None:
    assert loopback_variables(chosen) == given
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "loop"), (2, "eth0")])
    assert loopback_variables({}) == {}, "where the loopback has another name"


def test_listening_sockets_of_a_process_are_listed_with_their_addresses() -> None:
    with socket.create_server((HOST, 0)) as near, socket.create_server(("", 0)) as far, socket.socket() as silent:
        silent.bind((HOST, 0))
        found = listening([os.getpid()])
        assert near.getsockname() in found
        assert silent.getsockname() not in found
        assert far.getsockname() in beyond_loopback(found)
        assert near.getsockname() not in beyond_loopback(found)
