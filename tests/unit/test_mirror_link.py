"""What readers of a copy see while its files arrive, with an agent that answers when the test says so."""

import math
from collections import deque
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.devices.helper import HelperAnswer
from core.hosts.connection import MAX_KEPT_BYTES, Answer
from core.hosts.connection import Connection as RealConnection
from core.hosts.copies import Copies, Plan
from core.hosts.host_list import Host
from core.hosts.mirror import SAMPLE_BYTES, Link
from core.hosts.run_files import SMALL, FilePart, RunEntry, travels, unpack_listing
from core.runs.facts import RunState
from core.runs.foreign import copies_folder
from core.runs.run import Run
from core.schema.codec import encode
from core.series.run_series import RunSeries
from tests.support.written_runs import values, write_run

MEASUREMENTS = "events/worker-0.jsonl"


class Connection:
    """A connection to an agent that has each question answered by the test."""

    def __init__(self, host: Host) -> None:
        self.host, self.hello, self.heard_at = host, SimpleNamespace(runs="/runs"), math.inf
        self.asked: dict[str, tuple[Answer, dict[str, object]]] = {}

    def poll(self, timeout_s: float) -> None: ...

    def request(self, ability: str, **terms: object) -> Answer:
        self.asked[ability] = Answer(0), terms
        return self.asked[ability][0]

    def result(self, answer: Answer) -> object:
        return answer.value

    def read(self, unpack, found, why):
        del why
        return unpack(found)

    take = RealConnection.take


def listing(run_dir: Path, *, live: bool) -> dict[str, object]:
    found = {str(path.relative_to(run_dir)): path.stat() for path in run_dir.rglob("*") if path.is_file()}
    files = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in found.items() if travels(name)}
    return {"runs": {run_dir.name: {"id": "1", "live": live, "files": files}}, "complete": True}


def answer_next(connection: Connection, run_dir: Path) -> str:
    """Send the first of the files that were asked for; return its name."""
    answer, terms = connection.asked["read"]
    (_, file, offset, _), *_ = terms["reads"]
    stat = (run_dir / file).stat()
    part = FilePart.packed(stat.st_size, stat.st_mtime_ns, (run_dir / file).read_bytes()[offset:])
    answer.value, answer.done = {"parts": [encode(part)]}, True
    return str(file)


def test_reader_has_measurements_that_arrive_after_the_end_and_before_the_word_of_it(tmp_path):
    """A run is listed as live while the files of its end arrive, the small ones first."""
    run_dir = write_run(tmp_path, "a", [values(1, 1, 2, loss=[0.5, 0.25])])
    copies = Copies(copies_folder() / "one")
    assert copies.keep()
    made = Link(Connection(Host(name="one", address="one")), copies, deque(), deque())
    say = partial(made.poll, 0.0)
    say()
    made.connection.asked["runs"][0].items.append(listing(run_dir, live=True))
    say()
    while made.connection.asked["read"][1]["reads"][0][1] != MEASUREMENTS:
        answer_next(made.connection, run_dir)
        say()
    run, series = Run.attach(copies.root / "a"), RunSeries()
    series.fold(run.poll())
    assert run.facts.state is RunState.FINISHED
    assert "loss" not in series.metrics
    assert answer_next(made.connection, run_dir) == MEASUREMENTS
    say()
    made.connection.asked["runs"][0].items.append(listing(run_dir, live=False))
    say()
    series.fold(run.poll())
    assert series.metrics["loss"].values.tolist() == [0.5, 0.25]
    copies.leave()


def test_samples_that_arrive_as_few_bytes_count_as_what_they_take_here() -> None:
    """Readings that nobody fetches, of which all samples but the first are those before: `null`."""
    readings = deque[HelperAnswer](maxlen=1000)
    link = Link(Connection(Host(name="one", address="one")), Copies(copies_folder() / "one"), readings, deque())
    link.poll(0.0)
    stream, count = link.connection.asked["readings"][0], 1000
    stream.items.append({"time": 1.0, "samples": [{"device_id": str(each), "time": 1.0} for each in range(count)]})
    for time in range(2, 50):
        link.poll(0.0)
        assert len(readings) * count * SAMPLE_BYTES <= MAX_KEPT_BYTES + count * SAMPLE_BYTES
        assert readings[-1].samples[-1].time == time - 1, "the latest ones are there"
        stream.items.append({"time": float(time), "samples": [None] * count})
    readings.clear()
    link.poll(0.0)
    assert len(readings) == 1


def test_all_bytes_of_all_files_count_in_the_limit(tmp_path: Path) -> None:
    """What lists need is copied on when measurements are not, and stops in its turn."""
    run_dir = write_run(tmp_path, "a", [values(1, 1, 2, loss=[0.5, 0.25])])
    copies = Copies(copies_folder() / "one")
    assert copies.keep()
    entries = unpack_listing(listing(run_dir, live=False)).runs
    small = sum(size for file, (size, _) in entries["a"].files.items() if file in SMALL)
    for most, wanted in ((10 * small, True), (8 * small // 7, False)):
        plan = Plan(copies, max_bytes=most)
        assert plan.put("a", entries["a"])
        assert {file for _, file in plan.next(99)} == SMALL & entries["a"].files.keys()
        for file in SMALL & entries["a"].files.keys():
            copies.append("a", file, 0, (run_dir / file).read_bytes())
            copies.complete("a", file, *entries["a"].files[file])
        plan.look("a")
        assert (("a", MEASUREMENTS) in plan.next(99)) is wanted
        assert plan.is_full() is not wanted
        copies.remove("a")
    plan = Plan(copies, max_bytes=small)
    copies.append("b", "marks.jsonl", 0, b"x" * small)
    assert plan.put("b", RunEntry(files={"marks.jsonl": (2 * small, 1)}))
    assert plan.next(99) == []
    copies.leave()


def test_runs_with_too_many_files_in_all_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.hosts.copies.MAX_ALL_FILES", 10)
    plan, entry = Plan(Copies(tmp_path)), RunEntry(files={f"events/worker-{rank}.jsonl": (1, 1) for rank in range(4)})
    assert [plan.put(name, entry) for name in "abca"] == [True, True, False, True]
    plan.forget("b")
    assert plan.put("c", entry)
