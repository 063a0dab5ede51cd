"""Where processes listen: the interface that ranks of one machine are given, and the list of sockets of the tests."""

import os
import socket
from dataclasses import replace

import pytest

from core.launchers.local import HOST, RAS_PORTS, environment, loopback_variables, ras_address
from core.schema.spec import RankAssignment
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


GPU = RankAssignment(rank=0, world_size=1, devices=("GPU-1",), own=("GPU-1",), kind="nvidia", target="script", cores=())


def test_each_run_on_gpus_has_an_address_of_its_own_for_the_reports_of_nccl() -> None:
    """It follows from the run's id, so that whoever asks about a run needs nothing else."""
    runs = [f"20260101-{second:06}-digits" for second in range(40)]
    addresses = [environment({}, run, GPU)["NCCL_RAS_ADDR"] for run in runs]
    assert addresses == list(map(ras_address, runs))
    assert len(set(addresses)) > 30
    for address in addresses:
        host, _, port = address.partition(":")
        assert (host, int(port) in RAS_PORTS) == (HOST, True)


@pytest.mark.parametrize("own", [{"NCCL_RAS_ADDR": "10.0.0.1:28028"}, {"NCCL_RAS_ENABLE": "0"}])
def test_address_for_the_reports_of_nccl_is_not_set_over_the_users_own_nor_without_a_gpu(own: dict[str, str]) -> None:
    given = environment(own, "run", GPU)
    assert {name: value for name, value in given.items() if name.startswith("NCCL_RAS")} == own
    cpu = replace(GPU, kind="cpu", devices=("cpu:0",), own=("cpu:0",), cores=(0,))
    assert "NCCL_RAS_ADDR" not in environment({}, "run", cpu)


def test_listening_sockets_of_a_process_are_listed_with_their_addresses() -> None:
    with socket.create_server((HOST, 0)) as near, socket.create_server(("", 0)) as far, socket.socket() as silent:
        silent.bind((HOST, 0))
        found = listening([os.getpid()])
        assert near.getsockname() in found
        assert silent.getsockname() not in found
        assert far.getsockname() in beyond_loopback(found)
        assert near.getsockname() not in beyond_loopback(found)
