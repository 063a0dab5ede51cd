"""What travels between a connection and an agent, and an agent at the ends of two pipes."""

import json
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from core.devices.device import Device, Sample
from core.devices.helper import HelperAnswer
from core.devices.helper import to_document as pack
from core.errors import RunError
from core.hosts import connection, protocol
from core.hosts.agent.server import Agent
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import MAX_HELD_BYTES, Connection
from core.hosts.host_list import Host
from core.hosts.protocol import unpack_readings
from core.language import Message
from core.system.helper_process import clean_environment
from core.system.processes import here
from tests.support.waiting import PATIENCE_S, wait_until

HELLO = protocol.Hello(
    protocol=protocol.VERSION, version="0.1.0", python="3.11.2", user="anna", identity=here(), runs="/runs"
)


def test_hello_arrives_as_it_was_sent_and_one_of_another_protocol_needs_no_more_than_its_number():
    assert protocol.hello_of(protocol.encode(HELLO.document(1.0))) == HELLO
    found = protocol.hello_of(b'{"hello": "trainyard agent", "protocol": 99, "identity": "new", "version": "9.0"}')
    assert (found.protocol, found.version) == (99, "9.0")


@pytest.mark.parametrize(
    "noise",
    [b"", b"Welcome to lab!", b"\xff\xfe", b"{}", b"[1]", b'"trainyard agent"', b"trainyard agent: 3 users",
     b'{"hello": "trainyard agents"}', b"[" * 5000 + b"trainyard agent"],
)
def test_noise_is_no_hello(noise):
    assert protocol.hello_of(noise) is None


@pytest.mark.parametrize("change", [{"protocol": None}, {"protocol": "1"}, {"user": 3}])
def test_hello_that_lacks_something_is_an_error(change):
    with pytest.raises(ValueError, match="hello"):
        protocol.hello_of(json.dumps({**HELLO.document(1.0), **change}).encode())


@pytest.mark.parametrize("line", [b"", b"\xff", b"nonsense", b"3", b"[]", b"[" * 5000, b"x" * (2**20 + 1)])
def test_line_that_is_no_message_is_an_error(line):
    with pytest.raises(ValueError, match=r"\w"):
        protocol.decode(line)


# -- devices and readings --------------------------------------------------------------------------

GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="N")
READ = Sample(device_id="GPU-1", time=1.0, clock_reasons=("too hot",))


def test_reading_that_has_not_changed_arrives():
    sent = HelperAnswer(devices=(GPU,), samples=(READ,))
    again = HelperAnswer(samples=(replace(READ, time=2.0),))
    line = json.dumps(pack(again, sent.samples))
    assert "too hot" not in line, "what has not changed is not described again"
    assert unpack_readings(json.loads(line), sent.samples) == again


class Served:
    """An agent on a thread, and the other ends of its pipes."""

    def __init__(self, abilities):
        requests, self.to_agent = os.pipe()
        self.from_agent, answers = os.pipe()
        self._agents = [requests, answers]
        self._rest = b""
        self.error = ""
        self._agent = Agent(Path("/runs"), requests, answers, abilities, PATIENCE_S)
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            self._agent.run()
        except ValueError as error:
            self.error = str(error)
        finally:
            if not self._working():
                self._close_agents()

    def _working(self):
        return [thread for thread, _ in self._agent._open.values() if thread.is_alive()]

    def _close_agents(self):
        while self._agents:
            os.close(self._agents.pop())

    def send(self, *messages):
        for each in messages:
            os.write(self.to_agent, each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n")

    def read(self):
        """Return the next message; None at the end."""
        while b"\n" not in self._rest:
            assert select.select([self.from_agent], [], [], PATIENCE_S)[0], "no answer"
            chunk = os.read(self.from_agent, 65536)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line) if line else self.read()

    def is_full(self):
        """Return whether the pipe takes no more. How many bytes that are depends on how they were written."""
        return not select.select([], [self._agents[1]], [], 0.0)[1]

    def answer(self, *messages):
        """Return the last of as many messages as are sent."""
        self.send(*messages)
        return [self.read() for _ in messages][-1]

    def limit_silence(self, seconds):
        """Let the agent end after so long a silence, from now on."""
        self._agent._silence_s = seconds
        self.send(protocol.ALIVE)  # the limit counts from a message on

    def close_input(self):
        os.close(self.to_agent)
        self.to_agent = -1

    def close(self):
        for each in (self.to_agent, self.from_agent):
            with suppress(OSError):
                os.close(each)
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        wait_until(lambda: not self._working(), "the requests to end, since nobody reads")
        self._close_agents()


@pytest.fixture
def serve():
    served = []

    def start(**abilities):
        served.append(Served(abilities))
        assert served[-1].read()["hello"] == protocol.MARK
        return served[-1]

    yield start
    for each in served:
        each.close()


def counting(request):
    number = 0
    while not request.cancelled.wait(0.001):
        number += 1
        yield number


def raising(error):
    def ability(request):
        raise error

    return ability


def test_requests_are_answered_in_any_order(serve):
    go = Event()
    agent = serve(slow=lambda request: go.wait(PATIENCE_S), echo=lambda request: dict(request.terms))
    agent.send({"id": 1, "do": "slow"})
    assert agent.answer({"id": 2, "do": "echo", "with": {"a": 1}}) == {"id": 2, "answer": {"a": 1}}
    go.set()
    assert agent.read() == {"id": 1, "answer": True}


def test_stream_ends_when_it_is_cancelled_and_the_agent_goes_on(serve):
    ended = Event()

    def stream(request):
        try:
            yield from counting(request)
        finally:
            ended.set()

    agent = serve(stream=stream, echo=lambda request: "here")
    agent.send({"id": 1, "do": "stream"})
    assert [agent.read() for _ in range(3)] == [{"id": 1, "item": number} for number in (1, 2, 3)]
    agent.send({"cancel": 1})
    while "item" in (last := agent.read()):
        pass
    assert last == {"id": 1, "answer": None}
    assert ended.is_set()
    agent.send({"cancel": 1}, {"cancel": 77}, {})
    assert agent.answer({"id": 2, "do": "echo"}) == {"id": 2, "answer": "here"}


@pytest.mark.parametrize(
    ("ability", "sentence"),
    [
        (raising(ValueError("Give more.")), "Give more."),
        (raising(RunError("It failed.")), "It failed."),
        (raising(PermissionError(13, "Permission denied", "/runs")), "/runs cannot be read: Permission denied."),
        (raising(KeyError("x")), "An error of Trainyard there: KeyError: 'x'"),
        (lambda request: "x" * 2**20, "The answer has more than 1048576 bytes."),
        (lambda request: object(), "An error of Trainyard there: TypeError: Object of type object is not JSON"),
        (lambda request: (each for each in [object()]), "An error of Trainyard there: TypeError"),
    ],
)
def test_ability_that_fails_is_answered_with_a_sentence(serve, ability, sentence, capfd):
    agent = serve(bad=ability, echo=lambda request: "here")
    assert Message.read(agent.answer({"id": 1, "do": "bad"})["error"]).startswith(sentence)
    assert agent.answer({"id": 2, "do": "echo"}) == {"id": 2, "answer": "here"}


@pytest.mark.parametrize(
    "message",
    [b"nonsense\n", b"\xff\n", b"[]\n", b"3\n", {"id": "1", "do": "echo"}, {"id": 1},
     {"id": 1, "do": "echo", "with": 3}, {"id": 0, "do": "echo"}, {"cancel": [1]}, b"{" * (2**20 + 70_000)],
)
def test_agent_ends_at_a_message_that_makes_no_sense(serve, message):
    agent = serve(echo=lambda request: "here")
    with suppress(BrokenPipeError):  # it may have gone before all of it was sent
        agent.send(message)
    assert agent.read() is None
    wait_until(lambda: agent.error, "the agent to say why")


def test_agent_works_on_a_limited_number_of_requests(serve):
    agent = serve(stream=lambda request: (each for each in iter(lambda: request.cancelled.wait(10), True)))
    agent.send(*({"id": number, "do": "stream"} for number in range(1, protocol.MAX_OPEN + 2)))
    wait_until(lambda: agent.error, "the agent to end")
    assert "too many requests" in agent.error


@pytest.mark.parametrize("how", ["input ends", "reader goes", "silence"])
def test_agent_ends_with_the_other_side_and_ends_its_streams(serve, how):
    ended = Event()

    def stream(request):
        try:
            while not request.cancelled.wait(0.01):
                yield "x" * 1000
        finally:
            ended.set()

    agent = serve(stream=stream)
    agent.send({"id": 1, "do": "stream"})
    assert "item" in agent.read()
    if how == "input ends":
        agent.close_input()
    elif how == "reader goes":
        os.close(agent.from_agent)
    else:
        agent.limit_silence(0.3)
    while how != "reader goes" and "item" in agent.read():
        pass  # a full pipe would keep the stream from its end
    agent.thread.join(PATIENCE_S)
    assert not agent.thread.is_alive()
    wait_until(ended.is_set, "the stream to end")


def test_agent_ends_although_nobody_reads_its_full_pipe(serve):
    agent = serve(stream=lambda request: ("x" * 100_000 for _ in range(1000)), echo=lambda request: "here")
    agent.send({"id": 1, "do": "stream"}, {"id": 2, "do": "echo"})
    wait_until(agent.is_full, "the pipe to be full")
    agent.close_input()
    agent.thread.join(PATIENCE_S)
    assert not agent.thread.is_alive()


def test_wait_grows_while_no_attempt_leads_to_a_connection(monkeypatch):
    """However long the attempts take: a login that hangs is no connection."""

    def hang(*_, **__):
        raise HostError(Failure.NO_ANSWER, "It did not answer.")

    waits = []

    def note(error):
        if error is not None:
            waits.append(follower.wait_s)
        if len(waits) == 4:
            follower.end()
        return True

    monkeypatch.setattr(connection, "Connection", hang)
    host = Host(name="one", address="one")
    follower = connection.Follower(host, lambda *_: None, note, waits=(0.001, 1.0), steady_s=0.0)
    follower.start()
    follower.join(PATIENCE_S)
    assert not follower.is_alive()
    assert waits == [0.001, 0.002, 0.004, 0.008]


HOSTILE_AGENT = """
import json, sys, time
print(sys.argv[1], flush=True)
number, size = json.loads(sys.stdin.readline())["id"], int(sys.argv[2])
while size:
    print(json.dumps({"id": number, "item": "x" * size}), flush=True)
    time.sleep(0.001)
time.sleep(1000)
"""


@pytest.fixture
def hostile() -> Iterator[Callable[[int], Connection]]:
    """Connects to an agent that answers the first request with items of so many bytes, or never."""
    with ExitStack() as stack:

        def connect(size: int) -> Connection:
            words = [sys.executable, "-c", HOSTILE_AGENT, json.dumps(HELLO.document(1.0)), str(size)]
            carrier = SimpleNamespace(
                command_line=lambda _: words, cwd="/", environment=clean_environment,
                explain_silence=lambda silent_s: HostError(Failure.NO_ANSWER, f"silent for {silent_s:g} s"),
            )
            opened = stack.enter_context(
                Connection(SimpleNamespace(name="h", address="h", command="trainyard", carrier=carrier))
            )
            opened.wait(lambda: opened.hello is not None, PATIENCE_S)
            return opened

        yield connect


@pytest.mark.parametrize("ability", ["clock", "read", "readings"])
def test_items_that_nobody_takes_or_has_asked_for_end_the_connection(hostile, ability) -> None:
    opened = hostile(100_000)
    answer = opened.request(ability)
    with pytest.raises(HostError, match="It sends more than was asked for") as ended:
        opened.wait(lambda: False, PATIENCE_S)
    assert ended.value.failure is Failure.NONSENSE
    assert sum(map(len, answer.items)) <= MAX_HELD_BYTES if ability == "readings" else not answer.items


def test_items_of_a_stream_that_are_taken_or_no_longer_wanted_take_no_memory(hostile, monkeypatch) -> None:
    monkeypatch.setattr("core.hosts.connection.MAX_HELD_BYTES", 1_000_000)
    opened = hostile(100_000)
    stream, taken = opened.request("readings"), []
    while len(taken) < 30:
        opened.poll(0.1)
        taken += [len(stream.items.popleft()) for _ in range(len(stream.items))]
    opened.cancel(stream)
    heard_at = [opened.heard_at]
    while len(heard_at) < 30:
        opened.poll(0.1)
        heard_at += [opened.heard_at] if opened.heard_at != heard_at[-1] else []
        assert not stream.items


def test_request_that_is_never_answered_has_a_deadline(hostile, monkeypatch) -> None:
    monkeypatch.setattr("core.hosts.connection.DEADLINE_S", 0.2)
    opened = hostile(0)
    answer = opened.request("read")
    opened.wait(lambda: answer.done, PATIENCE_S)
    with pytest.raises(HostError, match=r"h has not answered this for 0\.2 s\. Whether it was done is seen when"):
        opened.result(answer)
    opened.poll()
