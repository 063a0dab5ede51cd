"""Shared fixtures: the worker pools, and one finished run of every strategy."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.block_model import blocks, blocks_alone  # noqa: F401 (fixtures)
from tests.support.listening import Listeners
from tests.support.ray_cluster import cluster, running_cluster  # noqa: F401 (fixtures)
from tests.support.running import Followed, Trained, train
from tests.support.shared import shared_root
from tests.support.ssh_server import server, ssh_server  # noqa: F401 (fixtures)
from tests.support.strategy_runs import COLD, LISTENERS, StrategyRuns, spec_of
from tests.support.two_hosts import added_host  # noqa: F401 (fixture)
from tests.support.worker_pool import WorkerPools


@pytest.fixture(scope="session")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPools]:
    """The worker pools: one for PyTorch and one for TensorFlow and Keras."""
    made = WorkerPools(tmp_path_factory.mktemp("temporary"))
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def _in_pools(pools: WorkerPools) -> Iterator[None]:
    """Start runs in the worker pools. The temporary files of what is killed stay below a folder of pytest's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(pools.temporary))
        patch.setattr("core.runs.directory.launch_supervisor", pools.launch)
        yield


@pytest.fixture(autouse=True)
def _cold(request: pytest.FixtureRequest, pools: WorkerPools) -> Iterator[None]:
    """Start runs of tests marked `e2e` as users start them, unless the mark has `pooled=True`."""
    marker = request.node.get_closest_marker("e2e")
    if marker and not marker.kwargs.get("pooled"):
        with pools.cold():
            yield
    else:
        yield
        pools.wait()


@pytest.fixture(scope="session")
def strategy_runs(tmp_path_factory: pytest.TempPathFactory, pools: WorkerPools) -> StrategyRuns:
    """Finished, read-only runs by framework, strategy and accumulation.

    Those of `COLD` without accumulation are started as users start them. Where runs listen is recorded beside them.
    """

    def make(key: tuple[str, str, int], runs_root: Path) -> Followed:
        framework, strategy, accumulation = key
        is_cold = accumulation == 1 and (framework, strategy) in COLD
        with pools.cold(is_cold=is_cold), Listeners(runs_root) as listeners:
            followed = train(spec_of(*key), runs_root)
        (runs_root / LISTENERS).write_text(json.dumps(sorted(listeners.seen)))
        return followed

    return Trained(make, shared_root(tmp_path_factory) / "cells")
