"""The event log: complete lines, incomplete lines, garbage, and a full disk."""

import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from core.catalog.strategies import find_strategy
from core.devices.cpu import cpu_devices
from core.errors import RunError
from core.launchers.local import assign_ranks
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.event_kinds import Checkpoint, Notice, Ready, Rewind
from core.schema.event_log import Log
from core.schema.events import RESERVE_BYTES, RecordError, Tail, Writer, last_step, make_reserve, metrics_line
from core.schema.paths import EVENTS, RESERVE
from core.schema.spec import write_spec
from core.worker.context import Context
from core.worker.training.metrics_reporter import NotFiniteError
from tests.support.running import CAME_UP, FOREVER, LONG, Followed, make_spec, start, write_recipe


def test_each_written_event_is_read_once(tmp_path: Path) -> None:
    writer, tail = Writer(tmp_path / "a.jsonl"), Tail(tmp_path / "a.jsonl")
    assert tail.read() == []
    writer.write(Rewind(step=1, time=0.0))  # imported measurements may begin there
    writer.write(Notice(text="two"))
    found = tail.read()
    assert [(event["kind"], event.get("step")) for event in found] == [("rewind", 1), ("notice", None)]
    assert found[0]["t"] == 0.0 < found[1]["t"]
    writer.write(Ready(rank=0))
    assert [event["kind"] for event in tail.read()] == ["ready"]
    assert tail.read() == []
    writer.close()


def test_incomplete_last_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tail = Tail(path)
    whole = json.dumps({"t": 1.0, "kind": "late"}) + "\n"
    with path.open("w") as file:
        for piece in (whole[:5], whole[5:12]):
            file.write(piece)
            file.flush()
            assert tail.read() == []
        file.write(whole[12:] + whole[:3])
    assert [event["kind"] for event in tail.read()] == ["late"]
    assert tail.garbage_lines == 0


def test_garbage_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = b'{"t": 1, "kind": "good"}\n'
    path.write_bytes(good + b"\xff\xfe\n" + b"[]\n" + b'{"t": "x", "kind": "k"}\n' + b'{"kind": "k"}\n' + good)
    tail = Tail(path)
    assert [event["kind"] for event in tail.read()] == ["good", "good"]
    assert tail.garbage_lines == 4


def test_log_of_several_files_is_ordered_by_time(tmp_path: Path) -> None:
    (tmp_path / EVENTS).mkdir()
    (tmp_path / EVENTS / "a.jsonl").write_text('{"t": 2, "kind": "second"}\n{"t": 4, "kind": "fourth"}\n')
    (tmp_path / EVENTS / "b.jsonl").write_text('{"t": 1, "kind": "first"}\n{"t": 3, "kind": "third"}\n')
    (tmp_path / EVENTS / "b.tmp").write_text('{"t": 0, "kind": "none"}\n')
    assert [event["kind"] for event in Log(tmp_path).read()] == ["first", "second", "third", "fourth"]


def test_metric_values_keep_float32_precision_nan_and_infinity(tmp_path: Path) -> None:
    values = [0.1, 1e-38, 3.4028234663852886e38, math.nan, math.inf, -math.inf]
    path = tmp_path / "a.jsonl"
    writer = Writer(path)
    writer.write_json(metrics_line(since=1.0, until=2.5, first_step=7, values={"loss": values, "näme": [1]}))
    writer.close()
    (event,) = Tail(path).read()
    assert (event["t"], event["since"], event["first"], event["values"]["näme"]) == (2.5, 1.0, 7, [1])
    assert event["values"]["loss"][:3] == pytest.approx(values[:3], rel=1e-8)
    assert math.isnan(event["values"]["loss"][3])
    assert event["values"]["loss"][4:] == [math.inf, -math.inf]


def test_measurements_of_every_nth_step_need_a_possible_distance(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = metrics_line(since=1.0, until=2.5, first_step=8, values={"accuracy": [0.5, 0.75]}, every=8)
    wrong = [line.replace('"every":8', f'"every":{each}') for each in ("0", "-1", "1.5", "true", "null", str(2**31))]
    path.write_text("\n".join([line, *wrong]) + "\n")
    tail = Tail(path)
    (event,) = tail.read()
    assert (last_step(event), tail.garbage_lines) == (16, len(wrong))


def fill(folder: Path, leave: int = 0) -> None:
    """Fill the disk except for `leave` bytes."""
    fd = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    os.posix_fallocate(fd, 0, free - leave)
    os.close(fd)


def test_reserve_file_lets_the_last_line_be_written_on_a_full_disk(small_disk: Path) -> None:
    make_reserve(small_disk)
    assert (small_disk / RESERVE).stat().st_size == RESERVE_BYTES
    writer = Writer(small_disk / "a.jsonl")
    fill(small_disk, leave=4096)
    with pytest.raises(RecordError, match=r"The disk is full: .*a\.jsonl could not be written. Free some space"):
        write_many(writer)
    writer.write(Notice(text="last words"))
    writer.close()
    tail = Tail(small_disk / "a.jsonl")
    *numbers, last = [event.get("step") for event in tail.read()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 4
    assert last is None
    assert tail.garbage_lines == 0


def write_many(writer: Writer) -> None:
    for number in range(1000):
        writer.write(Checkpoint(step=number, name="x" * 1000))


def test_run_on_a_full_disk_fails_with_an_error_and_keeps_its_events(small_disk, tmp_path, fake_python) -> None:
    spec = replace(make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER), python=str(fake_python))
    followed = start(spec, small_disk / "runs").until_trained(10)
    fill(small_disk, leave=8192)
    followed.until_over()
    assert followed.states == [*CAME_UP, RunState.RELEASING, RunState.FAILED]
    error = str(followed.run.facts.error)
    assert error.startswith("The disk is full: ")
    assert re.search(rf"The disk at {re.escape(str(small_disk))} \(tmpfs\) was full at \d\d:\d\d:\d\d\.$", error), error
    again = Followed(Run.attach(followed.run.dir)).until_over()
    assert again.states == followed.states
    assert again.run_series.metrics["loss"].steps.tolist() == list(range(1, again.run.facts.step + 1))
    assert not any("no events" in notice for notice in again.run.facts.notices)


def test_full_disk_is_reported_before_the_start(small_disk: Path) -> None:
    fill(small_disk, leave=64 * 1024)
    with pytest.raises(RunError, match=r"is full: .*\. Free some space, or keep runs elsewhere with --runs DIR"):
        Run.start(make_spec("digits_mlp"), small_disk / "runs")


def test_traceback_is_recorded_for_errors_except_a_non_finite_loss(tmp_path, capsys) -> None:
    (tmp_path / EVENTS).mkdir()
    write_spec(tmp_path, make_spec("digits_mlp"))
    context = Context(str(tmp_path), assign_ranks(cpu_devices()[:1], find_strategy("pytorch", "single"))[0])
    cause = ValueError("no such data")
    because = NotFiniteError("It fails.")
    because.__cause__ = cause
    for error in (NotFiniteError("The loss is nan at step 1."), cause, because):
        context.record_error(error)
    context.close()
    events = Tail(tmp_path / EVENTS / "worker-0.jsonl").read()
    assert [event["message"] for event in events] == ["The loss is nan at step 1.", "no such data", "It fails."]
    assert [event["traceback"] is None for event in events] == [True, False, False]
    assert capsys.readouterr().err.startswith("The loss is nan at step 1.\nValueError: no such data\n")
