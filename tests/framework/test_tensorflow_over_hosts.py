"""TensorFlow over two machines, through a real ssh server: one curve, over a pause; more of it in soak tests.

Each start of a run imports TensorFlow on the host, cold. The one test outside of the soak takes about 15 seconds.
"""

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from unittest import mock

import pytest

from core.launchers import local
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.events import Tail
from core.schema.paths import EVENTS, worker_events
from core.worker.context import Context
from core.worker.errors import explain
from tests.framework.test_matrix import TOLERANCE, check_curve
from tests.support.running import Followed, source_spec, start, train
from tests.support.strategy_runs import spec_of
from tests.support.two_hosts import AWAY, descent_losses, over_hosts, parts, processes_there


@pytest.mark.slow
@pytest.mark.usefixtures("added_host")
def test_two_machines_follow_the_curve_of_one_device_over_a_pause(server, runs_root, strategy_runs) -> None:
    """The checkpoint has the random states of both workers, and reaches the other machine when the run is resumed."""
    spec = over_hosts(spec_of("tensorflow", "single", checkpoints={"unit": "never"}), "multi_worker_mirrored")
    paused = start(spec, runs_root)
    assert paused.pause().state is RunState.PAUSED, paused.run.facts
    assert paused.run.facts.step > 0
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


@pytest.mark.soak
@pytest.mark.e2e
@pytest.mark.usefixtures("added_host")
def test_parameter_server_over_two_machines_reaches_the_same_accuracy_over_a_pause(server, runs_root) -> None:
    """Compare the final accuracy only: the losses of asynchronous runs vary."""
    alone = train(spec_of("tensorflow", "single", epochs=10), runs_root)
    spec = over_hosts(spec_of("tensorflow", "single", epochs=10, checkpoints={"unit": "never"}), "parameter_server")
    paused = start(spec, runs_root)
    assert paused.pause().state is RunState.PAUSED, paused.run.facts
    assert paused.run.facts.step > 0
    assert parts(server) == []
    run = Followed(Run.resume(paused.run.dir)).until_over()
    assert run.states[-1] is RunState.FINISHED, run.run.facts
    accuracy, wanted = (each.run_series.metrics["val_accuracy"].values[-3:].mean() for each in (run, alone))
    assert accuracy > wanted - 0.02
    facts = run.run.facts
    assert any("asynchronous" in text for text in facts.notices)
    assert {rank: (each.role, each.host) for rank, each in facts.workers.items()} == {
        0: ("chief", ""), 1: ("worker", ""), 2: ("worker", "one"), 3: ("ps", ""),
    }
    assert parts(server) == []
    assert processes_there(server) == []


DESCENT = """\
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
x = tf.range(1.0, 9.0)[rank::size]
with strategy.scope():
    weight = tf.Variable(0.0)


@tf.function
def step():
    def replica():
        error = weight * x - 3 * x
        found = tf.stack([tf.reduce_sum(error**2), tf.reduce_sum(2 * x * error)])
        loss, gradient = tf.unstack(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, found))
        weight.assign_sub(0.01 * gradient / 8)
        return loss / 8

    return strategy.run(replica)


for number in range(1, 21):
    print(f"step {number} loss {float(step()):.8f}", flush=True)
"""
"""Data parallel gradient descent by hand: each copy of the variable subtracts the same."""


@pytest.mark.soak
@pytest.mark.e2e
@pytest.mark.usefixtures("added_host")
def test_script_with_tf_config_over_machines_follows_the_curve_of_one_device(server, runs_root, tmp_path) -> None:
    spec = source_spec(tmp_path, DESCENT, launch="per-device")
    away = train(replace(spec, devices=("cpu:0", AWAY)), runs_root)
    assert away.states[-1] is RunState.FINISHED, (away.run.facts, away.run.log_end())
    assert away.losses() == pytest.approx(descent_losses(), rel=1e-4, abs=1e-5)
    assert parts(server) == []


def explained(error: Exception, *addresses: str) -> str | None:
    """Return what a worker that had this error says."""
    assignment = SimpleNamespace(addresses=addresses, rank=0)
    spec = SimpleNamespace(framework="tensorflow")
    return explain(error, cast("Context", SimpleNamespace(assignment=assignment, has_no_network=False, spec=spec)))


def test_parameter_server_that_is_gone_is_explained() -> None:
    """The error that the chief gets is of a class of its own, derived from that of any other worker."""
    with mock.patch.dict(os.environ):  # which importing TensorFlow changes
        import tensorflow as tf
        from tensorflow.python.distribute.coordinator.cluster_coordinator import PSUnavailableError

    text = explained(PSUnavailableError(tf.errors.UnavailableError(None, None, "gone")))
    assert text == "Another worker of the run can no longer be reached: gone"


@pytest.mark.soak
def test_port_that_another_program_has_taken_is_explained() -> None:
    with mock.patch.dict(os.environ):  # which importing TensorFlow changes
        import tensorflow as tf

    with local.listening(1) as (port,):
        address = f"127.0.0.1:{port}"
        with pytest.raises(tf.errors.UnknownError) as caught:
            tf.distribute.Server({"worker": [address]}, "worker", 0)
        text = str(explained(caught.value, address))
    assert text.startswith(f"TensorFlow cannot listen at {address}: another program has taken this port")
