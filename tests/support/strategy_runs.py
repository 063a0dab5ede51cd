"""Specs for comparing strategies: the same digits in the same batches."""

from core.catalog import strategies
from core.catalog.strategies import Strategy
from core.devices.cpu import cpu_devices
from core.schema.spec import RunSpec
from tests.support.running import Trained, make_spec

EPOCHS = 3
STEPS = 69
"""1437 digits in batches of 64: the last batch of each epoch has 29, which two devices cannot share evenly."""
TWO = cpu_devices()[:2]
LISTENERS = "listeners.json"
"""The file next to a run of `StrategyRuns` with the addresses and ports on which its processes listened."""
COLD = {
    ("pytorch", "single"), ("pytorch", "ddp"), ("tensorflow", "mirrored"), ("tensorflow", "multi_worker_mirrored"),
    ("keras", "single"),
}
"""Framework and strategy of the runs that start as users start them: of each framework, and of each layout of
processes. The others are forked from a pool, which imports a framework once.

`test_pytorch_strategies.py` also starts fsdp and pipeline so, and a soak test in `test_matrix.py` all others.
"""

StrategyRuns = Trained[tuple[str, str, int]]
"""Runs by framework, strategy and accumulation."""


def devices_of(strategy: Strategy) -> str:
    """Return as many of the two devices as the strategy takes."""
    return ",".join(device.id for device in TWO[: strategy.max_devices])


def spec_of(framework: str, strategy: str, accumulation: int = 1, **training: object) -> RunSpec:
    """Return the spec of a strategy's run."""
    return make_spec(
        "digits_cnn", framework=framework, strategy=strategy,
        devices=devices_of(strategies.find_strategy(framework, strategy)),
        accumulation=accumulation, **{"epochs": EPOCHS, "batch_size": 64, "seed": 3, **training},
    )
