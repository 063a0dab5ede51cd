"""A run in a worker pool records the same events as a cold run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.system import processes
from tests.support.running import train
from tests.support.strategy_runs import spec_of
from tests.support.worker_pool import WorkerPools

OF_ITS_OWN = {"t", "pid", "created", "guard", "seconds", "peak_bytes", "sentence"}
"""Fields that differ between runs: times, processes, and the memory that a process shares with its pool."""


@pytest.fixture
def whole_pools(pools: WorkerPools, framework: str) -> Iterator[WorkerPools]:
    """Pools whose TensorFlow computes with the kernels of a cold run: see `WITHOUT_ONEDNN`."""
    if framework != "tensorflow":
        yield pools
        return
    made = WorkerPools(pools.temporary, {})
    yield made
    made.wait()
    made.close()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("framework", "strategy"), [("pytorch", "single"), ("pytorch", "ddp"), ("tensorflow", "mirrored")]
)
def test_cold_and_pooled_runs_record_the_same_events(
    runs_root, pools, whole_pools, strategy_runs, monkeypatch, framework, strategy
) -> None:
    cold = strategy_runs[framework, strategy, 1]
    monkeypatch.setattr("core.runs.directory.launch_supervisor", whole_pools.launch)
    with pools.cold(is_cold=False):
        pooled = train(spec_of(framework, strategy), runs_root)
    assert recorded(pooled.run.dir) == recorded(cold.run.dir)
    assert pooled.run_series.metrics.keys() == cold.run_series.metrics.keys()
    for name, series in cold.run_series.metrics.items():
        if name == "accuracy":
            continue  # of training batches: measured as often as there is time for
        assert pooled.run_series.metrics[name].values.tolist() == series.values.tolist(), name
        assert pooled.run_series.metrics[name].steps.tolist() == series.steps.tolist(), name
    assert processes.tagged(pooled.run.id) == []
    if framework == "tensorflow":
        assert [*pools.temporary.glob("autograph*")], "the pool's files are not where other programs have theirs"


def recorded(run_dir: Path) -> dict[str, list[Any]]:
    """Return the events by file, without those whose number or place depends on timing."""
    found: dict[str, list[Any]] = {}
    for path in (run_dir / "events").glob("*.jsonl"):
        for event in map(json.loads, path.read_text().splitlines()):
            if event["kind"] in {"sample", "metrics", "software", "step_time", "peak"}:
                continue
            if event["kind"] == "checkpoint" and event["reason"] != "end":
                continue  # a training that takes longer has more of them
            fields = {name: value for name, value in event.items() if name not in OF_ITS_OWN}
            found.setdefault(path.name, []).append(fields)
    return {name: in_order_of_ranks(events) for name, events in found.items()}


def in_order_of_ranks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events with the exits of the ranks last, by rank: the order of their ends varies."""
    exits = [event for event in events if event["kind"] == "worker_exit"]
    return [event for event in events if event not in exits] + sorted(exits, key=lambda event: event["rank"])
