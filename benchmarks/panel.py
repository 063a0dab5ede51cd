"""Real runs under the panel, and what they measured of themselves."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.runs import follow
from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from core.runs.facts import RunState
from core.runs.run import Run
from core.series.run_series import RunSeries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.devices.device import Device

NEVER: Mapping[str, object] = {"unit": "never"}
LEFT_OUT = 1
"""Epochs at the beginning that are left out: in them frameworks allocate, trace and compile."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is trained, the same under the panel and by hand."""

    recipe: str
    """A built-in name or a file."""
    devices: tuple[str, ...]
    framework: str = "pytorch"
    strategy: str = "single"
    epochs: int
    batch_size: int = 64
    rate: float = 0.05
    checkpoints: Mapping[str, object] = field(default_factory=lambda: NEVER)
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the run, which a script by hand does not know."""

    def __post_init__(self) -> None:
        if self.epochs <= LEFT_OUT:
            raise ValueError(f"There are to be {self.epochs} epochs, of which the first is not timed. Give more.")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """By one run."""

    ends: list[float]
    """Unix times at which the epochs ended, validations included."""
    steps_per_epoch: int
    val_loss: float | None
    """Of the last epoch."""
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    """The events that tell of them."""

    @property
    def seconds_per_epoch(self) -> float:
        """From the end of the first epoch to the end of the last."""
        return (self.ends[-1] - self.ends[LEFT_OUT - 1]) / (len(self.ends) - LEFT_OUT)


def under_the_panel(work: Work, devices: Sequence[Device] | None = None) -> Measured:
    """Train it in a real run. Raises `RuntimeError` with the run's own words where that fails.

    `devices`: those to choose from; None for those of this machine.
    """
    choices = RecipeChoices(
        recipe=work.recipe,
        devices=work.devices,
        framework=work.framework,
        strategy=work.strategy,
        settings=work.settings,
        training={"epochs": work.epochs, "batch_size": work.batch_size, "learning_rate": work.rate, **work.training},
        checkpoints=work.checkpoints,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Run.start(compose(choices, cpu_devices() if devices is None else devices), Path(folder))
        follow(run, None)
        if run.facts.state is not RunState.FINISHED:
            raise RuntimeError(f"The run ended {run.facts.state}: {run.facts.error}\n{run.log_end()}")
        return _measured(run.dir, work.epochs)


def _measured(run_dir: Path, epochs: int) -> Measured:
    """As the run has recorded it."""
    events = Run.attach(run_dir).catch_up()
    run_series = RunSeries()
    run_series.fold(events)
    loss, validation = run_series.metrics["loss"], run_series.metrics.get("val_loss")
    steps = run_series.steps_per_epoch
    assert steps is not None
    assert loss.count == steps * epochs, f"{loss.count} steps of {steps * epochs} were recorded"
    # A report is made at the end of each epoch, and after its validation if there is one.
    ends = validation.times if validation is not None else loss.times[steps - 1 :: steps]
    assert len(ends) == epochs
    return Measured(
        ends=ends.tolist(),
        steps_per_epoch=steps,
        val_loss=None if validation is None else float(validation.values[-1]),
        checkpoints=[event for event in events if event["kind"] == "checkpoint"],
    )
