"""A learning rate schedule of the recipe's own: `schedule(optimizer, steps)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from ....language import tr
from ...recipe import wrong_return

if TYPE_CHECKING:
    import torch

    from ...recipe import LoadedRecipe


class RecipeSchedule:
    """Takes a step of the recipe's schedule after each step of the optimizer.

    A checkpoint has the rates, but not the schedule. After a resume the schedule is taken through the steps that were
    done: its values depend on nothing but their number.
    """

    def __init__(self, schedule: Any, optimizer: torch.optim.Optimizer) -> None:  # noqa: ANN401 (any of torch's)
        self._schedule, self._optimizer = schedule, optimizer
        self._begin = [_values(group) for group in optimizer.param_groups]
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


def _values(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}
