"""Every available strategy on two CPU devices has the losses of one device and leaves no processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.catalog import strategies
from core.catalog.strategies import Strategy
from core.config import validation
from core.runs.facts import RunState
from core.schema.events import Tail
from core.schema.paths import EVENTS, worker_events
from tests.support.listening import Listeners, beyond_loopback
from tests.support.running import CAME_UP, Followed, train
from tests.support.strategy_runs import COLD, EPOCHS, LISTENERS, STEPS, TWO, StrategyRuns, spec_of

TOLERANCE = {"pytorch": 1e-5, "tensorflow": 1e-4, "keras": 1e-4}


def is_available(strategy: Strategy) -> bool:
    return not validation.obstacle(strategy, TWO[: strategy.max_devices])


AVAILABLE = [strategy for strategy in strategies.STRATEGIES if is_available(strategy)]
SYNCHRONOUS = [strategy for strategy in AVAILABLE if not strategy.is_asynchronous]


def name(strategy: Strategy) -> str:
    return f"{strategy.framework}-{strategy.name}"


def check_whole(followed: Followed, epochs: int = EPOCHS) -> None:
    """Check that the run finished and recorded every step."""
    steps = epochs * STEPS // EPOCHS
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    assert followed.states == [*CAME_UP, RunState.RELEASING, RunState.FINISHED]
    assert followed.run_series.metrics["loss"].steps.tolist() == list(range(1, steps + 1))
    assert followed.run_series.metrics["val_accuracy"].count == epochs


def check_curve(followed: Followed, baseline: Followed, relative: float) -> None:
    losses, wanted = followed.losses(), baseline.losses()
    differences = [abs(one - other) / other for one, other in zip(losses, wanted, strict=True)]
    assert max(differences) < relative, f"step {differences.index(max(differences)) + 1}: {max(differences):.2g}"
    for metric in ("val_loss", "val_accuracy"):
        values, others = (each.run_series.metrics[metric].values.tolist() for each in (followed, baseline))
        assert values == pytest.approx(others, rel=relative), metric


def test_strategies_without_a_gpu_are_available() -> None:
    assert [name(strategy) for strategy in AVAILABLE] == [
        "pytorch-single", "pytorch-ddp", "pytorch-fsdp", "pytorch-pipeline", "pytorch-placement",
        "tensorflow-single", "tensorflow-mirrored", "tensorflow-central_storage", "tensorflow-multi_worker_mirrored",
        "tensorflow-parameter_server", "tensorflow-towers", "tensorflow-placement",
        "keras-single", "keras-mirrored", "keras-placement",
    ]


def started(strategy: Strategy) -> Any:
    """Return the mark of a strategy's run without accumulation."""
    return pytest.mark.e2e if (strategy.framework, strategy.name) in COLD else pytest.mark.slow


EACH = [pytest.param(each, marks=started(each)) for each in SYNCHRONOUS]


def marks(strategy: Strategy, accumulation: int) -> Any:
    """Return the marks of a run. Each of TensorFlow and Keras takes seconds.

    Their strategies for two devices accumulate in `test_tensorflow.py` and `test_keras.py`, too, with a last batch that
    has no item for one of the devices.
    """
    if accumulation == 1:
        return started(strategy)
    return () if strategy.framework == "pytorch" or strategy.name == "single" else pytest.mark.soak


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "accumulation"),
    # `single` itself is the baseline.
    [
        pytest.param(strategy, many, marks=marks(strategy, many))
        for strategy in SYNCHRONOUS
        for many in (1, 2)
        if many > 1 or strategy.name != "single"
    ],
    ids=lambda value: value if isinstance(value, int) else name(value),
)
def test_every_synchronous_strategy_matches_the_single_device_curve(strategy, accumulation, strategy_runs) -> None:
    followed = strategy_runs[strategy.framework, strategy.name, accumulation]
    check_whole(followed)
    check_curve(followed, strategy_runs[strategy.framework, "single", 1], TOLERANCE[strategy.framework])


@pytest.mark.parametrize("strategy", EACH, ids=name)
def test_workers_report_what_they_do_before_the_first_step(strategy: Strategy, strategy_runs: StrategyRuns) -> None:
    run_dir = strategy_runs[strategy.framework, strategy.name, 1].run.dir
    events = Tail(run_dir / EVENTS / worker_events(0)).read()
    phases = [event["name"] for event in events if event["kind"] == "phase"]
    assert [phases[0], phases[-1]] == ["framework", "step"]
    assert [each for each in phases if each in {"recipe", "data"}] == ["recipe", "data"]
    assert "model" in phases
    assert ("join" in phases) == (strategy.processes == "per_device")
    until = next(number for number, event in enumerate(events) if event["kind"] == "metrics")
    assert all(event["kind"] != "phase" for event in events[until:])


@pytest.mark.parametrize("strategy", EACH, ids=name)
def test_strategies_listen_on_the_loopback_interface_alone(strategy: Strategy, strategy_runs: StrategyRuns) -> None:
    """Look at the runs that the other tests of this file have started.

    The other strategy, and what listens in a network of its own: `check_unreachable` in `test_tensorflow.py`.
    """
    followed = strategy_runs[strategy.framework, strategy.name, 1]
    listeners = [(address, port) for address, port in json.loads((followed.run.dir.parent / LISTENERS).read_text())]
    assert beyond_loopback(listeners) == set()
    assert bool(listeners) == (strategy.processes == "per_device" and not strategy.needs_addresses)


@pytest.mark.slow
def test_asynchronous_strategy_of_tensorflow_reaches_the_same_accuracy(runs_root: Path) -> None:
    """Compare the final accuracy only: the losses of asynchronous runs vary."""
    alone, followed = (
        train(spec_of("tensorflow", strategy, epochs=10), runs_root) for strategy in ("single", "parameter_server")
    )
    check_whole(followed, epochs=10)
    assert any("asynchronous" in text for text in followed.run.facts.notices)
    accuracy, wanted = (each.run_series.metrics["val_accuracy"].values[-3:].mean() for each in (followed, alone))
    assert accuracy > wanted - 0.02


@pytest.mark.soak
@pytest.mark.e2e
@pytest.mark.parametrize("strategy", [each for each in AVAILABLE if (each.framework, each.name) not in COLD], ids=name)
def test_strategy_started_as_users_start_it_has_the_curve_of_one_device(strategy, strategy_runs, runs_root) -> None:
    """The other tests fork the workers of these strategies from a pool."""
    with Listeners(runs_root) as listeners:
        followed = train(spec_of(strategy.framework, strategy.name), runs_root)
    check_whole(followed)
    if not strategy.is_asynchronous:
        check_curve(followed, strategy_runs[strategy.framework, "single", 1], TOLERANCE[strategy.framework])
    assert beyond_loopback(listeners.seen) == set()
    assert bool(listeners.seen) == (strategy.processes == "per_device" and not strategy.needs_addresses)
