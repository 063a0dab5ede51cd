"""The part of a run of another machine: its file, who holds it, and its events as the run records them."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.hosts.parts.head import KeptWatch, continue_holder, held
from core.hosts.parts.part_files import translate, worker_exits
from core.launchers.local import interface_of, interfaces, reach
from core.runs.directory import Part, read_part, write_part
from core.schema.codec import decode, encode
from core.schema.event_kinds import OF_HOST, OF_WORKERS, Ended, ModelPart, Notice, read
from core.schema.paths import HOLDER_FILE
from core.schema.spec import RankAssignment
from core.system import processes
from tests.support.waiting import wait_until

ASSIGNMENT = RankAssignment(
    rank=3, world_size=4, devices=("cpu:0", "cpu:1"), own=("cpu:1",), kind="cpu", cores=(1,), target="pytorch.ddp",
    host=1, meeting="10.0.0.1:4000", interface="eth0",
)
PART = Part(head="head", run="20260101-digits", assignments=(ASSIGNMENT,), grace_s=5.0)


@pytest.mark.parametrize("change", [{"grace_s": -1}, {"grace_s": 1e9}, {"run": "a\nb"}, {"assignments": []}])
def test_a_part_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the sentence is that of whoever reads it)
        decode(Part, {**encode(PART), **change})


def test_a_part_is_left_when_nothing_has_held_it_for_its_grace_time(tmp_path: Path) -> None:
    assert read_part(tmp_path) is None
    write_part(tmp_path, PART)
    assert read_part(tmp_path) == PART
    watch = KeptWatch(tmp_path, 60.0)
    assert not watch.is_away, "its head has not come yet"
    with held(tmp_path):
        assert not KeptWatch(tmp_path, 0.0).is_left
        assert not watch.is_away
    assert watch.is_away
    assert KeptWatch(tmp_path, 0.0).is_left
    assert not KeptWatch(tmp_path, 60.0).is_left


def test_a_part_whose_holder_gives_no_sign_of_life_is_left(tmp_path: Path) -> None:
    """The lock is still held, as by an agent that is stopped."""
    write_part(tmp_path, PART)
    with held(tmp_path) as give_sign:
        watch = KeptWatch(tmp_path, 0.0, silent_s=0.2)
        wait_until(lambda: watch.is_left, "the holder to count as stopped")
        wait_until(lambda: give_sign() or not watch.is_left, "its next signs of life to be seen")  # which returns None
    assert KeptWatch(tmp_path, 0.0).is_left


def test_a_stopped_agent_that_holds_a_part_is_continued_and_nothing_else(tmp_path: Path) -> None:
    """A file of a run may name any process."""
    write_part(tmp_path, PART)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    for words, is_continued in ((["agent", "--stdio"], True), ([], False)):
        with subprocess.Popen([*command, *words]) as process:
            try:
                process.send_signal(signal.SIGSTOP)
                stopped = psutil.Process(process.pid)
                wait_until(lambda each=stopped: each.status() == psutil.STATUS_STOPPED, "the process to be stopped")
                me = processes.identify(process.pid)
                assert me is not None
                (tmp_path / HOLDER_FILE).write_text(json.dumps({"pid": me.pid, "created": me.created + 1}))
                assert not continue_holder(tmp_path), "another process with this pid"
                (tmp_path / HOLDER_FILE).write_text(json.dumps({"pid": me.pid, "created": me.created}))
                assert continue_holder(tmp_path) is is_continued
                assert (stopped.status() == psutil.STATUS_STOPPED) is not is_continued
                assert not continue_holder(tmp_path) or not is_continued, "it runs"
            finally:
                process.kill()
    (tmp_path / HOLDER_FILE).write_text("[1]")
    assert not continue_holder(tmp_path)


def test_events_of_a_part_have_the_names_and_the_clock_of_the_run() -> None:
    assert ASSIGNMENT.local_rank == 1
    metrics = {"t": 110.0, "kind": "metrics", "since": 108.0, "first": 1, "values": {"loss": [1.0]}}
    assert translate(metrics, OF_WORKERS, "node2", 10.0) == {**metrics, "t": 100.0, "since": 98.0}
    sample = {"t": 110.0, "kind": "sample", "device": "cpu:0", "memory_used_bytes": 5}
    assert translate(sample, OF_HOST, "node2", 10.0) == {**sample, "t": 100.0, "device": "node2/cpu:0"}
    worker = {"t": 1.0, "kind": "worker", "rank": 1, "pid": 5, "created": 2.0, "devices": ["cpu:0"]}
    assert translate(worker, OF_HOST, "node2", 0.0) == {**worker, "devices": ["node2/cpu:0"], "host": "node2"}


def test_what_is_translated_is_said_by_the_kinds_of_events() -> None:
    part = ModelPart(time=9.0, device="cpu:0", parameters=(), where="cpu", reads_from="cpu:1").event()
    assert translate(part, OF_WORKERS, "node2", 2.0) == {
        **part, "t": 7.0, "device": "node2/cpu:0", "reads_from": "node2/cpu:1",
    }
    nothing = {**part, "reads_from": None}
    assert translate(nothing, OF_WORKERS, "node2", 0.0) == {**nothing, "device": "node2/cpu:0"}
    notice = Notice(time=9.0, text="It is slow.").event()
    for source in (OF_WORKERS, OF_HOST):
        translated = translate(notice, source, "node2", 0.0)
        assert translated is not None
        assert read(translated) == Notice(text="node2: It is slow.")
    long = translate(Notice(time=9.0, text="x" * 10**6).event(), OF_WORKERS, "node2", 0.0)
    assert len(json.dumps(long)) < 50_000
    ended = Ended(time=9.0, by="guard", processes=()).event()
    assert translate(ended, OF_HOST, "node2", 0.0) == {**ended, "host": "node2"}
    assert translate({**ended, "processes": 5}, OF_HOST, "node2", 0.0) is None
    assert translate({"t": 9.0, "kind": "from the future"}, OF_HOST, "node2", 0.0) is None


@pytest.mark.parametrize("kind", ["state", "supervisor", "queued", "request", "release"])
def test_a_part_cannot_write_what_only_the_run_itself_may(kind: str) -> None:
    """Nor a damaged finding, which readers would stumble over."""
    event = {"t": 1.0, "kind": kind, "state": "finished", "device": "cpu:0", "verdict": "wonderful"}
    assert translate(event, OF_WORKERS, "node2", 0.0) is None
    assert translate(event, OF_HOST, "node2", 0.0) is None


def test_exits_are_those_of_the_ranks_of_the_part() -> None:
    events = [
        {"t": 1.0, "kind": "worker_exit", "rank": 1, "exit_code": -9, "signalled": False},
        {"t": 1.0, "kind": "worker_exit", "rank": 2, "exit_code": 0, "signalled": True},
        {"t": 1.0, "kind": "worker_exit", "rank": "2", "exit_code": 0},
    ]
    assert worker_exits(events, {1: None}) == {1: (-9, False)}
    assert worker_exits(events, {1: None, 2: None}) == {1: (-9, False), 2: (0, True)}


def test_the_interface_to_an_address_is_known() -> None:
    assert interfaces()["lo"] == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") == ""
    with pytest.raises(OSError):  # noqa: PT011 (the system's words)
        reach("127.0.0.1", 1, 1.0)
