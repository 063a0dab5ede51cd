"""The recipe's optimizer, or several by name: `optimizers(model)`, which take turns in each step; their schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from ....language import tr
from ....schema.settings import DEFAULT_LEARNING_RATE
from ...recipe import TRAINING_STEP, wrong_return
from ...steps import OPTIMIZERS, check_optimizers, check_owners, unused_optimizer
from ...training.metrics_reporter import SkippedSteps
from .steps import StepReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor, nn

    from ...context import Context
    from ...recipe import LoadedRecipe
    from .build import Task


def build_optimizers(recipe: LoadedRecipe, context: Context, model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    """Return the recipe's optimizers by name at the run's learning rate; the only one has an empty name.

    A recipe without one gets Adam. Raises `TypeError` or `ValueError`.
    """
    function = OPTIMIZERS if recipe.has(OPTIMIZERS) else "optimizer"
    if function == OPTIMIZERS:
        found = _several(recipe, model)
    elif recipe.has("optimizer"):
        found = {"": _single(recipe, model)}
    else:
        rate = context.training.learning_rate or DEFAULT_LEARNING_RATE
        return {"": torch.optim.Adam(model.parameters(), lr=rate)}
    if context.training.learning_rate is not None and not recipe.takes(function, "learning_rate"):
        _set_rate(found, context.training.learning_rate)
    return found


def rates_of(recipe: LoadedRecipe, context: Context, model: nn.Module) -> list[list[float]]:
    """Return the rates that new optimizers would have, see `Task.rates`. Raises as `build_optimizers`, `ValueError`."""
    if recipe.has("schedule"):
        raise ValueError(tr("schedule() of {recipe} sets the learning rate of every step.", recipe=recipe.name))
    recipe.set_rate(context.training.learning_rate)
    optimizers = build_optimizers(recipe, context, model).values()
    return [[float(group["lr"]) for group in each.param_groups] for each in optimizers]


def _single(recipe: LoadedRecipe, model: nn.Module) -> torch.optim.Optimizer:
    wants_model = recipe.first_parameter("optimizer") == "model"
    optimizer: torch.optim.Optimizer = recipe.call("optimizer", model if wants_model else model.parameters())
    if not _is_optimizer(optimizer):
        remedy = tr("Return a torch.optim.Optimizer; several of them are returned by optimizers(model).")
        raise wrong_return("optimizer", recipe, optimizer, remedy)
    return optimizer


def _is_optimizer(value: object) -> bool:
    """Return whether a value can be used as an optimizer. It need not be a subclass of torch's."""
    needed = ("param_groups", "step", "zero_grad", "state_dict", "load_state_dict")
    return not isinstance(value, type) and all(hasattr(value, name) for name in needed)


def _several(recipe: LoadedRecipe, model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    found = recipe.call(OPTIMIZERS, model)
    remedy = tr("Return a dict of names and torch.optim.Optimizer, such as {example}.", example="{'generator': Adam()}")
    check_optimizers(recipe, found, remedy, _is_optimizer)
    owned = {name: _parameters(optimizer) for name, optimizer in found.items()}
    check_owners(recipe, owned, {id(parameter): name for name, parameter in model.named_parameters()})
    several: dict[str, torch.optim.Optimizer] = found
    return several


def _set_rate(optimizers: Mapping[str, torch.optim.Optimizer], rate: float) -> None:
    """Set the rate of the first optimizer. The rates of groups and other optimizers keep the recipe's proportions."""
    base = float(next(iter(optimizers.values())).defaults.get("lr") or 0)
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            group["lr"] = rate * float(group["lr"]) / base if base else rate


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def turns_of(
    task: Task, recipe: LoadedRecipe, context: Context, optimizers: Mapping[str, torch.optim.Optimizer]
) -> tuple[Task, ...]:
    """Return a task for each of several optimizers: with its schedule, its loss scale, and its part of the step."""
    total = task.train.steps * context.training.epochs
    return tuple(
        replace(
            task,
            optimizer=optimizer,
            schedule=recipe_schedule(recipe, optimizer, total, name),
            training_step=StepReader(TRAINING_STEP, recipe.name_and_line(TRAINING_STEP)),
            turn=(name,),
            scaler=None if task.scaler is None else LossScaler(task.train.device, name=name),
        )
        for name, optimizer in optimizers.items()
    )


def check_used(turn: Task) -> None:
    """Raise `ValueError` if the pass of an optimizer has given none of its parameters a gradient."""
    if all(parameter.grad is None for parameter in _parameters(turn.optimizer)):
        (name,) = turn.turn
        raise unused_optimizer(name)


def merge_turns(found: Sequence[Any]) -> Any:  # noqa: ANN401 (as the passes return it)
    """Return the values of a step from those of its turns, in the order of `turn_names`: the sum of the losses first.

    Where ranks have shares, the values are multiplied by them, and their share is 1: each turn may have its own.
    """
    if not isinstance(found[0], tuple):
        return _row(found)
    parts = []
    for values, share in found:
        weight = torch.as_tensor(share, device=values.device)
        # A rank without an item has share 0. Its values do not count, even if they are NaN.
        parts.append(torch.where(weight > 0, values * weight, 0.0).float())
    return _row(parts), 1.0


def _row(parts: Sequence[Tensor]) -> Tensor:
    rows = [each.reshape(-1).to(parts[0].device) for each in parts]
    losses = torch.stack([each[0] for each in rows])
    return torch.cat([losses.sum(0, keepdim=True), losses, *(each[1:] for each in rows)])


class RecipeSchedule:
    """Takes a step of the recipe's schedule after each step of the optimizer.

    A checkpoint has the rates, but not the schedule. After a resume the schedule is taken through the steps that were
    done: its values depend on nothing but their number.
    """

    def __init__(self, schedule: Any, optimizer: torch.optim.Optimizer) -> None:  # noqa: ANN401 (any of torch's)
        self._schedule, self._optimizer = schedule, optimizer
        groups = optimizer.param_groups
        self._begin = [{name: value for name, value in group.items() if name != "params"} for group in groups]
        self._steps = 0

    def follow(self, steps: int) -> None:
        """Set the rates for the step after so many steps of the optimizer."""
        if self._steps == 0 and steps > 1:
            for group, values in zip(self._optimizer.param_groups, self._begin, strict=True):
                group.update(values)
        while self._steps < steps:
            self._schedule.step()
            self._steps += 1


def recipe_schedule(
    recipe: LoadedRecipe, optimizer: torch.optim.Optimizer, steps: int, name: str = ""
) -> RecipeSchedule | None:
    """Return the recipe's schedule over so many steps; None if it has none. Raises `TypeError` or `ValueError`.

    `name`: that of one of several optimizers. It is given to a schedule() that takes it.
    """
    if not recipe.has("schedule"):
        return None
    named = (name,) if name and recipe.takes("schedule", "name") else ()
    schedule = recipe.call("schedule", optimizer, steps, *named)
    if schedule is None and name:
        return None
    if isinstance(schedule, ReduceLROnPlateau):
        raise ValueError(  # noqa: TRY004 (the user's choice, not a type of ours)
            tr(
                "schedule() of {recipe} returned ReduceLROnPlateau, which needs a metric. Return a schedule that "
                "depends on the step alone.",
                recipe=recipe.name,
            )
        )
    if not callable(getattr(schedule, "step", None)):
        raise wrong_return("schedule", recipe, schedule, tr("Return a schedule of torch.optim.lr_scheduler."))
    return RecipeSchedule(schedule, optimizer)


class LossScaler(torch.amp.GradScaler):
    """Scales the loss of one optimizer, so that gradients in float16 neither vanish nor overflow.

    A step whose gradients overflow is skipped, and the scale is halved. It doubles after 2000 good steps.
    """

    def __init__(self, device: torch.device, *, name: str = "") -> None:
        """`name`: the optimizer's, where there are several."""
        super().__init__(device.type)
        self.scale(torch.ones((), device=device))  # torch makes the scale with its first use
        self._skipped = SkippedSteps(name=name)

    @property
    def skipped(self) -> int:
        """Steps skipped since the training began."""
        return self._skipped.count

    def unscale(self, optimizer: torch.optim.Optimizer, agree: Callable[[torch.Tensor], object] | None) -> bool:
        """Divide the gradients by the scale. Return whether all are finite, on all ranks.

        `agree`: sets a number to the largest of all ranks, where each rank has a part of the gradients.
        """
        self.unscale_(optimizer)
        # For each device a tensor that is above 0 if a gradient there is not finite.
        found = list(self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values())
        if agree is not None:
            for each in found:
                agree(each)
        return not sum(each.item() for each in found)

    def finish(self, optimizer: torch.optim.Optimizer, *, finite: bool) -> None:
        """Take the optimizer's step if the gradients are finite, and adapt the scale."""
        self.step(optimizer)
        self.update()
        self._skipped.count += not finite

    def report(self, context: Context, step: int) -> None:
        """Tell about skipped steps."""
        self._skipped.report(context, step, scale=self.get_scale())

    def state_dict(self) -> dict[str, Any]:
        return {"scaler": super().state_dict(), "skipped": self._skipped.count, "reported": self._skipped.reported}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict["scaler"])
        self._skipped.count, self._skipped.reported = state_dict["skipped"], state_dict["reported"]
