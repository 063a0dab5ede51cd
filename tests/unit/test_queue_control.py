"""Moving queued runs, which wait for nothing here: no process is started."""

import time
from pathlib import Path

import pytest

from core.queue import control
from core.queue.listing import QueuedRun, queue_view
from core.queue.request import QueueRequest, read_request, write_request
from tests.support.written_runs import BEGAN, write_run


def add(root: Path, name: str, order: float, priority: int = 0) -> Path:
    run_dir = write_run(root, f"20260101-000000-{name}-abcd", states=((0.0, "queued"),))
    write_request(run_dir, QueueRequest(order=order, priority=priority))
    return run_dir


def queued(root: Path) -> list[QueuedRun]:
    """The queued runs as their tickets would be sorted."""
    return sorted(queue_view(root).runs, key=lambda each: (-each.request.priority, each.request.order))


def names(root: Path) -> list[str]:
    return [each.run_dir.name.split("-")[2] for each in queued(root)]


def test_a_run_is_moved_to_a_place_however_often_it_was_moved(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    made = {name: add(root, name, 1.7e9 + number) for number, name in enumerate("abc")}
    for turn in range(40):  # each halves the distance between two of them
        name = "cb"[turn % 2]
        control.move(made[name], 2, queued(root))
        assert names(root) == ["a", name, "bc"[turn % 2]], turn
    control.move(made["a"], 3, queued(root))
    assert names(root)[-1] == "a"


def test_a_run_joins_the_queue_for_seconds_before_it_is_said_that_no_process_waits(tmp_path: Path, monkeypatch) -> None:
    add(tmp_path / "runs", "a", 1.0)

    def reason() -> str:
        return queue_view(tmp_path / "runs").runs[0].reason

    monkeypatch.setattr(time, "time", lambda: BEGAN + 9.0)
    assert reason() == "It is joining the queue."
    monkeypatch.setattr(time, "time", lambda: BEGAN + 11.0)
    assert reason().startswith("The process that waited for its devices has ended")


def test_a_run_that_is_moved_past_others_takes_their_priority(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    made = {name: add(root, name, number, 5 - number) for number, name in enumerate("abc")}
    assert control.move(made["c"], 1, queued(root)) == 5
    assert names(root) == ["c", "a", "b"]
    assert control.move(made["c"], 3, queued(root)) == 4
    assert names(root) == ["a", "b", "c"]
    assert read_request(made["a"]) == QueueRequest(order=0, priority=5)
    for place in (0, 4):
        with pytest.raises(ValueError, match=f"There is no place {place} in your queue. Give a number from 1 to 3."):
            control.move(made["a"], place, queued(root))
