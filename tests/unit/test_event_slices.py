"""A run that is read in slices is the run that is read at once; a sketch of it is close to it."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from core.runs.facts import RunState
from core.runs.run import Run
from core.schema import event_log
from core.schema.event_log import divide, divide_after, pack
from core.schema.events import metrics_line, parse, parse_lines
from core.schema.paths import EVENTS
from core.schema.spec import write_spec
from core.series.long_runs import events_size, sketch
from core.series.run_series import RunSeries
from core.series.series import STEP
from tests.support.running import folded, make_spec

LOST = {"kind": "supervisor", "pid": 999_999_999, "created": 1.0, "host": "x", "boot": "y", "pid_namespace": "z"}


def write_run(folder: Path, seed: int, *, steps: int = 1500) -> Path:
    """A run with several resumes, of which events have equal times, lines are garbage and the last ones incomplete."""
    chance = random.Random(seed)
    worker, devices, supervisor = [], [], []
    now, step = 1000.0, 0
    for part in range(3):
        supervisor += [{"t": now, **LOST}, {"t": now, "kind": "state", "state": "starting"}]
        supervisor.append({"t": now + 1, "kind": "state", "state": "running"})
        worker.append({"t": now + 1, "kind": "plan", "epochs": 3, "steps_per_epoch": 500, "samples_per_epoch": 500})
        if part:
            step = max(step - chance.randrange(1, 60), 0)
            worker.append({"t": now + 1, "kind": "rewind", "step": step})
        while step < steps * (part + 1) // 3:
            count = chance.randrange(1, 30)
            losses = [chance.choice([chance.random(), float("nan"), 1e30]) for _ in range(count)]
            values = {"loss": losses, **({"rate": [0.1]} if chance.random() < 0.1 else {})}
            line = metrics_line(since=now, until=now + 1, first_step=step + 1, values=values)
            worker.append(json.loads(line))
            step, now = step + count, now + chance.choice([0, 1])
            devices += [
                {
                    "t": now,
                    "kind": "sample",
                    "device": name,
                    "utilisation_percent": chance.choice([None, 5.0, 7]),
                    "memory_used_bytes": step,
                    "temperature_celsius": chance.choice([None, 60 + step % 30]),
                }
                for name in ("gpu-a", "gpu-b")
            ]
            if chance.random() < 0.05:
                worker.append({"t": now, "kind": "notice", "text": f'A "notice"\n at {step}'})
        supervisor += [{"t": now, "kind": "state", "state": "releasing"}]
        freed = {"device": "gpu-a", "verdict": "released", "after_bytes": 1, "seconds": 1.0, "sentence": "Released."}
        supervisor += [{"t": now + 3, "kind": "release", **freed}, {"t": now + 3, "kind": "state", "state": "paused"}]
        now += 10
    run_dir = folder / f"run-{seed}"
    (run_dir / EVENTS).mkdir(parents=True)
    for name, events in (("worker-0", worker), ("devices", devices), ("supervisor", supervisor)):
        lines = [json.dumps(event) + "\n" for event in events]
        for garbage in ("no JSON\n", "\n", '{"t": 1}\n', '{"t": 5, "kind": "sample", "device": 3}\r\n'):
            lines.insert(chance.randrange(len(lines)), garbage)
        (run_dir / EVENTS / f"{name}.jsonl").write_text("".join(lines) + '{"t": 9e9, "kind": "sta')
    write_spec(run_dir, make_spec("digits_cnn"))
    return run_dir


def read_whole(run_dir: Path) -> tuple[Run, RunSeries]:
    run, run_series = Run.attach(run_dir), RunSeries()
    run_series.fold(run.catch_up())
    return run, run_series


def assert_same(one: tuple[Run, RunSeries], other: tuple[Run, RunSeries]) -> None:
    assert one[0].facts == other[0].facts
    ours, theirs = one[1], other[1]
    for name in ("started", "training_ended", "steps_per_epoch", "notice", "interruptions", "duration_s", "axes"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert_same_readings(ours, theirs)


def assert_same_readings(ours: RunSeries, theirs: RunSeries) -> None:
    assert ours.started == theirs.started
    assert ours.slowdowns == theirs.slowdowns
    for mine, yours in zip((ours.metrics, *ours.every_reading), (theirs.metrics, *theirs.every_reading), strict=True):
        assert list(mine) == list(yours)
        for name in mine:
            for column in ("steps", "times", "values"):
                np.testing.assert_array_equal(getattr(mine[name], column), getattr(yours[name], column), column)
            assert mine[name].min == yours[name].min


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("slice_bytes", [60, 1000, 10_000])
def test_slices_put_together_are_the_whole_run(tmp_path, monkeypatch, seed, slice_bytes) -> None:
    run_dir = write_run(tmp_path, seed)
    monkeypatch.setattr(event_log, "SLICE_BYTES", slice_bytes)
    run, run_series = Run.attach(run_dir), RunSeries()
    slices = 0
    for events in run.slices():
        slices += 1
        run_series.fold(events)
    run_series.fold(run.catch_up())
    assert slices > 5
    assert run.facts.starts == 3
    assert any("not events" in notice for notice in run.facts.notices)
    assert_same((run, run_series), read_whole(run_dir))


def test_what_is_written_while_slices_are_read_follows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path, 1)
    monkeypatch.setattr(event_log, "SLICE_BYTES", 500)
    run, run_series, number = Run.attach(run_dir), RunSeries(), 0
    for events in run.slices():
        run_series.fold(events)
        number += 1
        with (run_dir / EVENTS / "worker-1.jsonl").open("a") as file:
            file.write(metrics_line(since=2e9, until=2e9, first_step=number, values={"late": [1.0]}) + "\n")
    run_series.fold(run.catch_up())
    assert run_series.metrics["late"].steps.tolist() == list(range(1, number + 1))


def test_lines_are_parsed_together_as_one_by_one() -> None:
    lines = [
        b'{"t": 1, "kind": "a", "text": "\\ud800 half"}', b'{"t": 1, "kind": "b"} ', b'{"t": NaN, "kind": "c"}', b"",
        b'{"t": 1,', b'"kind": "d"}', b'{"t": 1, "kind": "e", "deep": ' + b"[" * 200 + b"]" * 200 + b"}", b"\xff",
        b'{"t": 1, "kind": "sample", "device": "x", "memory_used_bytes": 1' + b"0" * 30 + b"}", b"[1]", b"7" * 5000,
        b'{"t": 1, "kind": "e"}, {"t": 2, "kind": "f"}', b'\t{"t": 3, "kind": "g"}', '{"t":4,"kind":"é "}'.encode(),
    ]
    for some in (lines, [line for line in lines if b"\\" not in line and b"\xff" not in line]):
        data = b"\n".join(some)
        assert parse_lines(data) == [parse(line) for line in data.splitlines() if line.strip()]
    assert parse_lines(b'{"t": 1, "kind": "a"}\r{"t": 2, "kind": "b"}') == [
        {"t": 1, "kind": "a"}, {"t": 2, "kind": "b"},
    ]


def test_sketch_has_the_state_and_values_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.series.long_runs.BUDGET_S", 60.0)
    run_dir = write_run(tmp_path, 3, steps=60_000)
    assert events_size(run_dir) > 1_000_000
    facts, run_series = sketch(run_dir)
    run, whole = read_whole(run_dir)
    assert facts.state is run.facts.state is RunState.PAUSED
    assert (facts.history, facts.step, facts.plan) == (run.facts.history, run.facts.step, run.facts.plan)
    loss, all_losses = run_series.metrics["loss"], whole.metrics["loss"]
    assert 100 < len(loss) < len(all_losses)
    assert set(loss.steps) <= set(all_losses.steps)
    assert max(np.diff(loss.steps)) < 0.2 * 60_000
    assert len(run_series.memory["gpu-a"]) > 20


def test_what_is_prepared_is_what_would_be_drawn(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, 2)
    (_, plain), (_, prepared), (_, drawn) = (read_whole(run_dir) for _ in range(3))
    drawn.metrics["loss"].smooth(STEP, 0, 2000, 100, 0.6)
    prepared.prepare(drawn)
    assert prepared.metrics["loss"].weight == 0.6
    lines = [each.metrics["loss"].smooth(STEP, 0, 2000, 100, 0.6) for each in (plain, prepared)]
    for one, other in zip(*lines, strict=True):
        np.testing.assert_array_equal(one, other)


def packed_lines(**changes: object) -> bytes:
    """Readings of two devices as their writer makes them; `changes`: fields of the last one."""
    rows = [
        {"t": 100.0 + number // 2, "kind": "sample", "device": f"gpu-{number % 2}", "utilisation_percent": 90.5,
         "memory_used_bytes": 7 << 30, "temperature_celsius": None, "power_watts": 300.0}
        for number in range(6)
    ]
    rows[1] |= {"sm_clock_mhz": 1980, "slowdowns": ["too hot"]}
    rows[-1] |= changes
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_packed_readings_are_those_of_their_lines() -> None:
    lines = packed_lines()
    packed = pack(lines, 0.0)
    assert packed is not None
    assert parse(json.dumps(packed).encode()) is None, "no file can have them"
    assert packed["t"] == 102.0
    events = [event for event in parse_lines(lines) if event is not None]
    plain, whole = RunSeries(), RunSeries()
    plain.fold(events)
    whole.fold([packed])
    assert_same_readings(whole, plain)
    assert "gpu-0" not in whole.slowdowns
    assert [(each.since, each.words) for each in whole.slowdowns["gpu-1"]] == [(100.0, ("too hot",))]
    parts = folded(*divide_after(packed, [99.0, 100.0, 101.5, 500.0]))
    assert_same_readings(parts, plain)
    before, after = divide(packed, 101.0)
    assert [event["times"] for event in (*before, *after)] == [[100.0] * 2, [101.0, 101.0, 102.0, 102.0]]


@pytest.mark.parametrize(
    "changes",
    [
        {"t": 50.0}, {"t": float("nan")}, {"t": "1"}, {"t": 2**70}, {"kind": "state"}, {"device": 3}, {"device": None},
        {"memory_used_bytes": 2**63}, {"memory_used_bytes": "7"}, {"memory_used_bytes": True}, {"slowdowns": None},
        {"utilisation_percent": float("inf")}, {"slowdowns": "too hot"}, {"slowdowns": [[1]]}, {"more": {"a": 1}},
        {"device": "a\nb"}, {"device": "a[b"}, {"device": "a{b"},
    ],
)
def test_unusual_readings_are_not_packed(changes: dict[str, object]) -> None:
    assert pack(packed_lines(**changes), 0.0) is None


def test_other_lines_are_not_packed() -> None:
    lines = packed_lines()
    assert pack(lines, 100.5) is None  # the clock was set back
    for other in (b"\n", b"no JSON\n", b'{"t": 103.0, "kind": "state"}\n', b"\xff\n", lines[:-1] + b", " + lines):
        assert pack(other + lines, 0.0) is None
        assert pack(lines + other, 0.0) is None


def test_readings_are_in_order_with_a_resumed_part(tmp_path: Path) -> None:
    """The last reading before a supervisor ended unexpectedly is when its part was lost."""
    events = tmp_path / "run" / EVENTS
    events.mkdir(parents=True)
    lines = [{"t": float(at), "kind": "sample", "device": "gpu-0", "memory_used_bytes": at} for at in range(100, 200)]
    (events / "devices.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    supervisor = [
        {"t": 100.0, **LOST}, {"t": 100.0, "kind": "state", "state": "starting"},
        {"t": 150.5, **LOST, "pid": 999_999_998}, {"t": 150.5, "kind": "state", "state": "starting"},
        {"t": 160.0, "kind": "state", "state": "failed"},
    ]
    (events / "supervisor.jsonl").write_text("".join(json.dumps(line) + "\n" for line in supervisor))
    write_spec(tmp_path / "run", make_spec("digits_cnn"))
    run = Run.attach(tmp_path / "run")
    kinds = [event["kind"] for slice_ in run.slices() for event in slice_]
    assert kinds.count("samples") > 2
    assert "sample" not in kinds
    assert (150.0, RunState.LOST) in run.facts.history
    assert run.facts.history == read_whole(tmp_path / "run")[0].facts.history
