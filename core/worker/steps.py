"""A recipe's own `training_step(model, batch)` and `validation_step(model, batch)`, independent of the framework."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..language import join_sentences, tr
from .recipe import TRAINING_STEP, wrong_return

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .recipe import LoadedRecipe

VALIDATION_STEP, OPTIMIZERS = "validation_step", "optimizers"
LOSS, WEIGHT, RATE, VALIDATION_PREFIX = "loss", "weight", "learning_rate", "val_"
_ONLY_LOSS = (LOSS,)


def check_names(function: str, recipe: str, names: Iterable[object]) -> None:
    """Raise `ValueError` if a function of the recipe has measured something under a name that the run itself uses."""
    reserved = [name for name in names if name == RATE or str(name).startswith(VALIDATION_PREFIX)]
    if reserved:
        raise ValueError(
            tr(
                "{function}() of {recipe} returned a metric called {name}, a name that the run itself uses. Rename it.",
                function=function,
                recipe=recipe,
                name=reserved[0],
            )
        )


class StepReader:
    """Checks what a step returns. All calls must return the same names. A framework adds what its tensors are."""

    keeps_graph = ""
    """How to compute a loss that depends on the parameters: a sentence."""

    def __init__(self, function: str, recipe: str) -> None:
        """`function`, `recipe`: their names, for messages."""
        self._where = {"function": function, "recipe": recipe}
        self.names: tuple[str, ...] | None = None
        """The loss and the other metrics; None before the first call."""
        self.agreed = False
        """Whether all ranks are known to return the same names."""
        self.weighs = False
        """Whether the step returns a weight."""
        self.only_loss = False
        """Whether the step is known to return nothing but the loss."""

    @property
    def signature(self) -> tuple[str, ...]:
        """All names that the step returns."""
        return (*(self.names or ()), *([WEIGHT] if self.weighs else []))

    def is_loss(self, value: object) -> bool:
        """Return whether this is a tensor of one floating-point number."""
        raise NotImplementedError

    def is_number(self, value: object) -> bool:
        """Return whether this is a number, or a tensor of one element."""
        raise NotImplementedError

    def kind(self, value: object) -> str:
        """Return what a value is, for messages."""
        return type(value).__name__

    def checked(self, returned: Any) -> Mapping[str, Any]:  # noqa: ANN401 (whatever the recipe returns)
        """Return what the step returned by name.

        Raises `TypeError` or `ValueError` with a sentence.
        """
        values: Mapping[str, Any] = returned if isinstance(returned, dict) else {LOSS: returned}
        if not self.is_loss(values.get(LOSS)):
            raise TypeError(self._what_is_wrong(returned, values.get(LOSS)))
        names = (LOSS, *(name for name in values if name not in {LOSS, WEIGHT})) if len(values) > 1 else _ONLY_LOSS
        if self.names is None:
            check_names(self._where["function"], self._where["recipe"], names)
            self.names, self.weighs = names, WEIGHT in values
            self.only_loss = len(values) == 1
        elif names != self.names or (WEIGHT in values) != self.weighs:
            raise ValueError(
                tr(
                    "{function}() of {recipe} returned {names}, but {first} before. "
                    "It must return the same names, in the same order, for every batch.",
                    names=", ".join(values),
                    first=", ".join(self.signature),
                    **self._where,
                )
            )
        if len(values) > 1:
            for name in self.signature[1:]:
                self._check_number(name, values[name])
        return values

    def _check_number(self, name: str, value: object) -> None:
        if not self.is_number(value):
            raise TypeError(
                tr(
                    "{function}() of {recipe} returned {name!r} as {kind}. Return a number or a tensor of one element.",
                    name=name,
                    kind=self.kind(value),
                    **self._where,
                )
            )

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
            kind=self.kind(loss),
            **self._where,
        )

    def no_graph(self) -> RuntimeError:
        """Return the error for a loss that depends on no parameter."""
        what = tr(
            "The loss of {function}() of {recipe} depends on no parameter of the model, so there is nothing to train.",
            **self._where,
        )
        return RuntimeError(join_sentences([what, tr(self.keeps_graph)]))


def tensor_kind(shape: Sequence[int | None] | None, dtype: object) -> str:
    """Return what a tensor is, for messages."""
    return tr("a tensor of shape {shape} and type {dtype}", shape=shape, dtype=dtype)


def other_names(rank: int, names: Sequence[str], first: Sequence[str]) -> ValueError:
    """Return the error for a rank whose training step returns other names than rank 0's."""
    return ValueError(
        tr(
            "training_step() returned other names on rank {rank} ({names}) than on rank 0 ({first}). "
            "It must return the same names, in the same order, on all ranks.",
            rank=rank,
            names=", ".join(names),
            first=", ".join(first),
        )
    )


def unused_optimizer(name: str) -> ValueError:
    """Return the error for one of several optimizers whose pass has given none of its parameters a gradient."""
    return ValueError(
        tr(
            "No parameter of optimizer {name!r} got a gradient from training_step(model, batch, {name!r}). Let its "
            "loss depend on them, or leave the optimizer out of optimizers().",
            name=name,
        )
    )


def check_optimizers(recipe: LoadedRecipe, found: object, remedy: str, is_right: Callable[[object], bool]) -> None:
    """Raise `TypeError` unless `optimizers()` returned a dict of names and right things. `remedy`: what to return."""
    if not isinstance(found, dict):
        raise wrong_return(OPTIMIZERS, recipe, found, remedy)
    if found and all(isinstance(name, str) and name for name in found) and all(map(is_right, found.values())):
        return
    held = ", ".join(f"{name!r}: {_kind(each)}" for name, each in found.items())
    raise TypeError(
        tr(
            "optimizers() of {recipe} returned a dict of ({held}). {remedy}",
            recipe=recipe.name,
            held=held,
            remedy=remedy,
        )
    )


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_kind, value))})"
    return type(value).__name__


def check_owners(recipe: LoadedRecipe, owned: Mapping[str, Iterable[object]], names: Mapping[int, str]) -> None:
    """Raise `ValueError` if two optimizers have one parameter, or if one is not of the model.

    `owned`: the parameters of each optimizer. `names`: those of the model's parameters, by `id`.
    """
    owners: dict[int, str] = {}
    for owner, parameters in owned.items():
        for number in map(id, parameters):
            if number not in names:
                raise ValueError(
                    tr(
                        "Optimizer {name!r} of {recipe} has a parameter that is not one of the model. Make it a part "
                        "of what model() returns, so that it is moved and saved.",
                        name=owner,
                        recipe=recipe.name,
                    )
                )
            if number in owners:
                raise ValueError(
                    tr(
                        "The optimizers {one!r} and {other!r} of {recipe} share the parameter {parameter}. Give each "
                        "parameter to one of them.",
                        one=owners[number],
                        other=owner,
                        recipe=recipe.name,
                        parameter=names[number],
                    )
                )
            owners[number] = owner


def turn_names(readers: Mapping[str, StepReader]) -> tuple[str, ...]:
    """Return the names of the values of a step in which several optimizers take turns.

    These are `loss`, which is the sum, `loss_NAME` of each optimizer, and the other metrics. A metric that several of
    them return gets their names. `readers`: what has read the step of each optimizer.
    """
    own = tuple(f"{LOSS}_{name}" for name in readers)
    others = [(metric, name) for name, reader in readers.items() for metric in (reader.names or ())[1:]]
    counts = Counter([*own, *(metric for metric, _ in others)])
    return (LOSS, *own, *(f"{metric}_{name}" if counts[metric] > 1 else metric for metric, name in others))


def has_steps(recipe: LoadedRecipe) -> bool:
    """Return whether the recipe computes its training loss itself."""
    return recipe.has(TRAINING_STEP)


def validates_itself(recipe: LoadedRecipe) -> bool:
    """Return whether the recipe's own step validates: `validation_step`, else `training_step` where it has no loss."""
    if not has_steps(recipe):
        return False
    return recipe.has(VALIDATION_STEP) or not (recipe.has("loss") or recipe.has("metrics"))


def takes_any_shape(recipe: LoadedRecipe, function: str) -> bool:
    """Return whether what this function returns need not be (inputs ..., target): the recipe's own steps get it."""
    return has_steps(recipe) if function == "train_data" else validates_itself(recipe)


def validating_function(recipe: LoadedRecipe) -> str:
    """Return the name of the step that validates, where the recipe validates itself."""
    return VALIDATION_STEP if recipe.has(VALIDATION_STEP) else TRAINING_STEP
