"""A recipe's own `training_step(model, batch)` and `validation_step(model, batch)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ...language import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..recipe import LoadedRecipe

    Step = Callable[[nn.Module, Any], Any]

TRAINING_STEP, VALIDATION_STEP = "training_step", "validation_step"
LOSS, WEIGHT, RATE, VALIDATION_PREFIX = "loss", "weight", "learning_rate", "val_"
_ONLY_LOSS = (LOSS,)


class StepModule(nn.Module):
    """The model with the recipe's steps as its forward pass.

    DDP and FSDP prepare their work in the forward pass of the module they wrap. With the whole step in it, a step may
    use any method of the model.
    """

    def __init__(self, model: nn.Module, training_step: Step, validation_step: Step | None) -> None:
        """`validation_step`: None to validate with the recipe's loss and metrics."""
        super().__init__()
        self.model = model
        self._training_step, self._validation_step = training_step, validation_step

    def forward(self, *arguments: Any) -> Any:  # noqa: ANN401 (a batch, or the model's arguments)
        """Return what the step of the mode returns, or the model's output."""
        if self.training:
            return self._training_step(self.model, *arguments)
        if self._validation_step is not None:
            return self._validation_step(self.model, *arguments)
        return self.model(*arguments)


class Measured(NamedTuple):
    """What a step returned."""

    loss: Tensor
    """A scalar with its graph."""
    values: Tensor
    """The loss and the other metrics, detached: shape () or (1 + metrics)."""
    weight: Tensor | None
    """What the loss counts among the batches of a step, such as its number of tokens: float64, shape (). None: the
    number of its items."""


class StepReader:
    """Checks what a step returns. All calls must return the same names."""

    def __init__(self, function: str, recipe: str) -> None:
        """`function`, `recipe`: their names, for messages."""
        self._where = {"function": function, "recipe": recipe}
        self.names: tuple[str, ...] | None = None
        """The loss and the other metrics; None before the first call."""
        self.agreed = False
        """Whether all ranks are known to return the same names."""
        self._weighs = False

    @property
    def signature(self) -> tuple[str, ...]:
        """All names that the step returns."""
        return (*(self.names or ()), *([WEIGHT] if self._weighs else []))

    def read(self, returned: Any) -> Measured:  # noqa: ANN401 (whatever the recipe returns)
        """Return loss, metrics and weight. Raises `TypeError` or `ValueError` with a sentence."""
        values: Mapping[str, Any] = returned if isinstance(returned, dict) else {LOSS: returned}
        loss = values.get(LOSS)
        if not isinstance(loss, Tensor) or loss.ndim or not loss.is_floating_point():
            raise TypeError(self._what_is_wrong(returned, loss))
        names = (LOSS, *(name for name in values if name not in {LOSS, WEIGHT})) if len(values) > 1 else _ONLY_LOSS
        if self.names is None:
            self._check_names(names)
            self.names, self._weighs = names, WEIGHT in values
        elif names != self.names or (WEIGHT in values) != self._weighs:
            raise ValueError(
                tr(
                    "{function}() of {recipe} returned {names}, but {first} before. "
                    "It must return the same names, in the same order, for every batch.",
                    names=", ".join(values),
                    first=", ".join(self.signature),
                    **self._where,
                )
            )
        detached = loss.detach().float()
        if len(names) > 1:
            detached = torch.stack([detached, *(self._scalar(name, values[name], loss) for name in names[1:])])
        weight = self._scalar(WEIGHT, values[WEIGHT], loss).double() if self._weighs else None
        return Measured(loss, detached, weight)

    def _check_names(self, names: tuple[str, ...]) -> None:
        reserved = [name for name in names if name == RATE or str(name).startswith(VALIDATION_PREFIX)]
        if reserved:
            raise ValueError(
                tr(
                    "{function}() of {recipe} returned a metric called {name}, a name that the run itself uses. "
                    "Rename it.",
                    name=reserved[0],
                    **self._where,
                )
            )

    def _scalar(self, name: str, value: object, like: Tensor) -> Tensor:
        """Return a metric or the weight as a scalar on the loss's device."""
        is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
        if not is_number:
            raise TypeError(
                tr(
                    "{function}() of {recipe} returned {name!r} as {kind}. Return a number or a tensor of one element.",
                    name=name,
                    kind=_kind(value),
                    **self._where,
                )
            )
        return torch.as_tensor(value, dtype=torch.float32, device=like.device).detach().reshape(())

    def _what_is_wrong(self, returned: object, loss: object) -> str:
        if isinstance(returned, dict) and LOSS not in returned:
            names = ", ".join(map(str, returned)) or tr("an empty dict")
            return tr(
                "{function}() of {recipe} returned a dict without 'loss' ({names}). Add the loss.",
                names=names,
                **self._where,
            )
        return tr(
            "{function}() of {recipe} returned {kind} as the loss. Return a tensor of one floating-point number, or a "
            "dict with it as 'loss'.",
            kind=_kind(loss),
            **self._where,
        )

    def no_graph(self) -> RuntimeError:
        """Return the error for a loss that depends on no parameter."""
        return RuntimeError(
            tr(
                "The loss of {function}() of {recipe} depends on no parameter of the model, so there is nothing to "
                "train. Compute it from the model's output without detach(), item() or no_grad().",
                **self._where,
            )
        )


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return tr("a tensor of shape {shape} and type {dtype}", shape=tuple(value.shape), dtype=value.dtype)
    return type(value).__name__


def has_steps(recipe: LoadedRecipe) -> bool:
    """Return whether the recipe computes its training loss itself."""
    return recipe.has(TRAINING_STEP)


def validates_itself(recipe: LoadedRecipe) -> bool:
    """Return whether the recipe's own step validates: `validation_step`, else `training_step` where it has no loss."""
    if not has_steps(recipe):
        return False
    return recipe.has(VALIDATION_STEP) or not (recipe.has("loss") or recipe.has("metrics"))


def step_module(recipe: LoadedRecipe, model: nn.Module) -> nn.Module:
    """Return the module that strategies wrap: the model itself, or the model with the recipe's steps around it."""
    if not has_steps(recipe):
        return model
    training = _bound(recipe, TRAINING_STEP)
    validation = None
    if validates_itself(recipe):
        validation = _bound(recipe, VALIDATION_STEP) if recipe.has(VALIDATION_STEP) else training
    return StepModule(model, training, validation)


def _bound(recipe: LoadedRecipe, function: str) -> Step:
    return recipe.bound(function, 2)


def readers(recipe: LoadedRecipe) -> tuple[StepReader | None, StepReader | None]:
    """Return what checks the results of training and validation; None for those made of the recipe's loss."""
    if not has_steps(recipe):
        return None, None
    validation = VALIDATION_STEP if recipe.has(VALIDATION_STEP) else TRAINING_STEP
    return (
        StepReader(TRAINING_STEP, recipe.name),
        StepReader(validation, recipe.name) if validates_itself(recipe) else None,
    )
