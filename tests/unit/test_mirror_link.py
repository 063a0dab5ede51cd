"""What readers of a copy see while its files arrive, with an agent that answers when the test says so."""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from core.hosts.connection import Answer
from core.hosts.copies import Copies
from core.hosts.host_list import Host
from core.hosts.mirror import Link
from core.hosts.run_files import FilePart, travels
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
