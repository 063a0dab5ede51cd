"""TensorFlow over two machines, through a real ssh server: one curve, over a pause.

Each start of a run imports TensorFlow on the host, cold.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from core.runs.facts.states import RunState
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.events import Tail
from core.schema.paths import EVENTS, worker_events
from tests.framework.test_matrix import TOLERANCE, check_curve
from tests.support.running import Followed, start
from tests.support.ssh_server import add_host
from tests.support.strategy_runs import spec_of
from tests.support.two_hosts import over_hosts, parts, processes_there

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.ssh_server import SshServer
    from tests.support.strategy_runs import StrategyRuns


@pytest.fixture(autouse=True)
def _host(server: SshServer) -> Iterator[None]:
    """Add the host, and remove parts whose run was lost: the user of that machine would delete them."""
    add_host()
    yield
    for part in parts(server):
        shutil.rmtree(part)


@pytest.mark.slow
def test_two_machines_follow_the_curve_of_one_device_over_a_pause(
    server: SshServer, runs_root: Path, strategy_runs: StrategyRuns
) -> None:
    """The checkpoint has the random states of both workers, and reaches the other machine when the run is resumed."""
    spec = over_hosts(spec_of("tensorflow", "single", checkpoints={"unit": "never"}), "multi_worker_mirrored")
    paused = start(spec, runs_root).until_trained(2)
    paused.run.request("pause")
    paused.until(RunState.PAUSED)
    assert parts(server) == []
    (folder,) = checkpoint.folders(paused.run.dir)
    assert {"random-0.json", "random-1.json", "model.npz"} <= {path.name for path in folder.iterdir()}
    resumed = Followed(Run.resume(paused.run.dir)).until_over()
    assert resumed.states[-1] is RunState.FINISHED, resumed.run.facts
    check_curve(resumed, strategy_runs["tensorflow", "single", 1], TOLERANCE["tensorflow"])
    notices = resumed.run.facts.notices
    assert any("trusted network only" in each for each in notices)
    assert any("listen without a password as long as it trains" in each for each in notices)
    links = [each for each in Tail(resumed.run.dir / EVENTS / worker_events(0)).read() if each["kind"] == "link"]
    assert [each["backend"] for each in links] == ["grpc", "grpc"]
    assert parts(server) == []
    assert processes_there(server) == []
