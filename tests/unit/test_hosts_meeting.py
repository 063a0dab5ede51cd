"""Addresses and ports of the ranks of several machines: answers of an agent, and whether each machine reaches them."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any, cast

import pytest

from core.catalog.strategies import strategy_of
from core.config import validation
from core.config.abilities import MAX_PORTS, PART_ABILITIES
from core.devices.cpu import cpu_devices
from core.devices.device import device_here
from core.errors import RunError
from core.hosts.agent.server import Request
from core.hosts.carrier import Failure, HostError
from core.hosts.parts import meeting
from core.hosts.parts.meeting import HERE, Meeting
from core.hosts.parts.part_link import PartLink, ask_all, free_ports, own_address
from core.launchers.local import assign_ranks
from core.schema.event_kinds import Notice, Record
from core.schema.spec import RunSpec
from core.supervisor.jobs import RecipeJob
from tests.support.running import make_spec
from tests.support.waiting import PATIENCE_S


class LinkStandIn:
    """A link whose agent is here: it answers as a machine that shares the network of this one, and reaches all."""

    reaches_ranks = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: tuple[Iterator[Any], Request] | None = None

    def peer(self) -> str:
        return "127.0.0.1"

    def reach(self, address: str, port: int) -> object:
        if self._kept is not None and not self.reaches_ranks:  # the meeting is known: this is one of the ranks
            raise HostError(Failure.REFUSED, f"{address}:{port} cannot be reached: timed out.")
        terms: dict[str, object] = {"address": address, "port": port}
        return own_address(PART_ABILITIES["reach"](Request(runs_root=self._folder, terms=terms)))

    def listen(self, count: int) -> list[int]:
        request = Request(runs_root=self._folder, terms={"count": count})
        stream = cast("Iterator[Any]", PART_ABILITIES["listen"](request))
        found = free_ports(next(stream), count)
        self._kept = stream, request
        return found

    def end_listening(self) -> None:
        assert self._kept is not None
        stream, request = self._kept
        request.cancelled.set()
        assert list(stream) == []


def links(folder: Path, **facts: bool) -> dict[str, PartLink]:
    found = {name: LinkStandIn(folder) for name in ("one", "two")}
    for each in found.values():
        vars(each).update(facts)
    return cast("dict[str, PartLink]", found)


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(meeting.ADDRESS_VARIABLE, "127.0.0.1")


def is_taken(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_server((host, int(port))).close()
    except OSError:
        return True
    return False


def test_each_rank_has_an_address_that_is_kept_until_it_starts(tmp_path: Path) -> None:
    notices: list[Record] = []
    found = Meeting(links(tmp_path), notices.append)
    assert found.interfaces == {HERE: "lo", "one": "lo", "two": "lo"}
    addresses = found.keep_ports({HERE: 1, "one": 2, "two": 1})
    assert {name: len(each) for name, each in addresses.items()} == {HERE: 1, "one": 2, "two": 1}
    every = [address for each in addresses.values() for address in each]
    assert len(set(every)) == 4
    assert all(each.startswith("127.0.0.1:") and is_taken(each) for each in every)
    found.release()
    assert not any(map(is_taken, every))
    (notice,) = notices
    assert isinstance(notice, Notice)
    assert "over lo without encryption" in notice.text


def test_machine_that_does_not_reach_another_is_named_with_the_remedy(tmp_path: Path) -> None:
    found = Meeting(links(tmp_path, reaches_ranks=False), lambda *_, **__: None)
    with pytest.raises(RunError) as caught:
        found.keep_ports({HERE: 1, "one": 1, "two": 1})
    assert str(caught.value).startswith("one does not reach this machine at 127.0.0.1:")
    assert "timed out. Each rank connects to all others: open the firewalls of these machines" in str(caught.value)
    found.close()


def test_all_machines_are_asked_at_the_same_time_and_a_failure_is_raised_when_all_have_answered(tmp_path: Path) -> None:
    both = Barrier(2, timeout=PATIENCE_S)
    asked = links(tmp_path)
    assert ask_all(asked, lambda link: (both.wait(), link.peer())[1]) == dict.fromkeys(asked, "127.0.0.1")
    done: list[PartLink] = []

    def ask(link: PartLink) -> None:
        done.append(link)
        raise HostError(Failure.REFUSED, "one" if link is asked["one"] else "two")

    with pytest.raises(HostError, match=r"^one$"):
        ask_all(asked, ask)
    assert len(done) == 2


@pytest.mark.parametrize("count", [0, -1, MAX_PORTS + 1, "3", None, 1.5])
def test_no_number_of_ports_is_refused(tmp_path: Path, count: object) -> None:
    stream = cast("Iterator[Any]", PART_ABILITIES["listen"](Request(runs_root=tmp_path, terms={"count": count})))
    with pytest.raises(ValueError, match="no number of ports"):
        next(stream)


@pytest.mark.parametrize(
    ("read", "found"),
    [
        *((own_address, found) for found in (
            None, [], {}, {"interface": "lo"}, {"interface": "", "address": "10.0.0.1"},
            {"interface": 1, "address": "1.2.3.4"}, {"interface": "lo\n", "address": "10.0.0.1"},
            {"interface": "lo", "address": "node2"}, {"interface": "lo", "address": 16},
            {"interface": "lo", "address": "10.0.0.1:22,evil"}, {"interface": "lo", "address": "::1"})),
        *((lambda found: free_ports({"ports": found}, 2), found) for found in (
            None, [], [1], [1, 1], [1, 2, 3], [0, 1], [1, 65536], [1, True], ["1", 2], [1.0, 2], {"1": 2})),
    ],
)
def test_answer_that_is_no_address_or_no_list_of_free_ports_is_refused(read, found) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (`PartLink` says what is wrong)
        read(found)
    assert free_ports({"ports": [1, 65535]}, 2) == [1, 65535]


def listening_spec(strategy: str, framework: str = "tensorflow") -> RunSpec:
    spec = replace(make_spec("digits_cnn", framework="tensorflow"), framework=framework, strategy=strategy)
    return replace(spec, devices=("cpu:0", "node2/cpu:0"))


@pytest.mark.parametrize(
    ("strategy", "framework", "sentence"),
    [
        ("multi_worker_mirrored", "tensorflow", "In a network that you trust, allow open ports (--allow-open-ports)"),
        ("parameter_server", "tensorflow", "everybody who can connect to one could read and write your files there"),
        ("towers", "tensorflow", "Choose multi_worker_mirrored or parameter_server, or devices of one machine."),
        ("multi_worker_mirrored", "keras", "TensorFlow's own loop (--framework tensorflow) can use it."),
        ("mirrored", "keras", "Choose devices of one machine: trainyard --host HOST is the window on another one."),
    ],
)
def test_strategy_over_machines_is_refused_with_the_remedy(strategy: str, framework: str, sentence: str) -> None:
    here = cpu_devices()[0]
    devices = [here, device_here("node2", here)]
    spec = listening_spec(strategy, framework)
    (problem,) = validation.problems(spec, devices)
    assert sentence in str(problem)
    listens = framework == "tensorflow" and strategy != "towers"
    assert (validation.problems(replace(spec, allow_open_ports=True), devices) == []) is listens


def test_run_without_that_consent_is_not_started_and_one_with_it_says_so_once(tmp_path: Path) -> None:
    """The supervisor sees to it, whatever was checked before it was started. A part says nothing: its head does."""
    spec = listening_spec("multi_worker_mirrored")
    (first,) = assign_ranks(cpu_devices()[:1], strategy_of(spec))
    ranks = [replace(first, hosts=2, addresses=("10.0.0.1:5", "10.0.0.2:6"))]
    with pytest.raises(RunError, match="over several machines opens network ports without a password"):
        RecipeJob(spec, tmp_path).prepare(ranks, None)
    for host, says in ((0, True), (1, False)):
        job = RecipeJob(replace(spec, allow_open_ports=True), tmp_path)
        assert job.prepare([replace(each, host=host) for each in ranks], None)
        assert ("10.0.0.1:5, 10.0.0.2:6" in (job.trouble() or "")) is says
        assert job.trouble() is None
