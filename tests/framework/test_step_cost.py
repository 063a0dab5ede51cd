"""A step that a recipe computes itself costs as little of our own work as one of a plain loss. Costs 2 s.

Function calls are counted, which does not depend on how busy the machine is.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.schema.paths import CONTROL, EVENTS
from core.schema.spec import write_spec
from core.worker.context import Context
from core.worker.pytorch.loop import own_passes, stepper
from core.worker.pytorch.task.build import build
from core.worker.pytorch.task.saver import Saver
from core.worker.recipe import LoadedRecipe
from core.worker.training.controller import TrainingController, size_of
from core.worker.training.metrics_reporter import MetricsReporter
from tests.support.one_rank import ALONE
from tests.support.running import make_spec, write_recipe

PLAIN = """
    import torch
    from torch.nn.functional import cross_entropy

    def model():
        return torch.nn.Linear(20, 2)

    def train_data(items=64):
        return torch.randn(items, 20), torch.zeros(items, dtype=torch.long)

    def loss():
        return cross_entropy

    def optimizer(params):
        return torch.optim.SGD(params, lr=0.1)
"""
OWN = f"""{PLAIN}
    def training_step(model, batch):
        inputs, target = batch
        return cross_entropy(model(inputs), target)
"""
IN_A_DICT = f"""{PLAIN}
    def training_step(model, batch):
        inputs, target = batch
        return {{"loss": cross_entropy(model(inputs), target)}}
"""
STEPS = 30


def epochs_of(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what makes an epoch of 32 steps of a recipe on one device, without a process of its own."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = write_recipe(folder, source, folder.name)
    for part in (EVENTS, CONTROL):
        (folder / part).mkdir()
    spec = make_spec(path, epochs=1_000, batch_size=2, checkpoints={"unit": "never"})
    write_spec(folder, spec)
    context = Context(str(folder), ALONE)
    task = build(LoadedRecipe(spec, folder), context)
    size = size_of(task.train, task.val)
    controller = TrainingController(context, MetricsReporter(context), Saver(task, context), **size)
    step = stepper(task, context, controller, own_passes)

    def epoch(number: int) -> None:
        for batches in itertools.islice(task.train.shuffled(number), STEPS):
            step(batches)  # without its report, which is the same for all, and comes when it is time

    return epoch


def calls_per_step(epoch: Callable[[int], None]) -> float:
    epoch(0)  # the first steps do more
    count = itertools.count()
    gc.collect()
    gc.disable()  # it would call what earlier tests have left
    sys.setprofile(lambda _, event, __: next(count) if event in {"call", "c_call"} else None)
    try:
        epoch(1)
    finally:
        sys.setprofile(None)
        gc.enable()
    return next(count) / STEPS


def test_own_step_makes_hardly_more_calls_than_a_plain_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, own, in_a_dict = (
        calls_per_step(epochs_of(source, tmp_path / name, monkeypatch))
        for name, source in (("plain", PLAIN), ("own", OWN), ("in_a_dict", IN_A_DICT))
    )
    assert plain > 50, "the calls of torch's own functions"
    assert own <= plain + 6, "the function of the recipe, and reading what it returned"
    assert in_a_dict <= plain + 20
