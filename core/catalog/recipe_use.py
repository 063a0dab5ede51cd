"""Whether a framework and a strategy can train a recipe, and what to know before the start."""

from __future__ import annotations

from core.catalog.frameworks import FRAMEWORKS, Framework
from core.catalog.recipes import RecipeFile
from core.catalog.strategies import Strategy, find_strategy, strategies_of
from core.language import join_sentences, tr, tr_plural
from core.schema.settings import RUN_KEYWORDS
from core.text import join_names

STEP_FUNCTIONS = ("training_step", "validation_step", "collate")
"""Functions of a recipe that a training loop must know."""
CALLBACKS = "callbacks"
"""A function that only Keras' own `fit` has a use for."""


def check_strategy(recipe: RecipeFile, framework: str, strategy: str, *, varies: bool) -> None:
    """Raise `ValueError` with a sentence if a strategy cannot train the recipe. `varies`: the run has a schedule."""
    row = find_strategy(framework, strategy)
    _check_steps(recipe, row)
    if row.no_epoch_end and "on_epoch_end" in recipe.functions:
        raise ValueError(
            tr("Strategy {strategy} cannot call on_epoch_end() of recipe {name}, because {reason}. Choose another "
               "strategy, or remove the function.", strategy=row.name, name=recipe.name, reason=tr(row.no_epoch_end))
        )
    _check_optimizers(recipe, framework, row)
    if "schedule" in recipe.functions and framework != "pytorch":
        raise ValueError(
            tr("Recipe {name} has schedule(), which works with PyTorch only. Give the optimizer a schedule of "
               "keras.optimizers.schedules instead.", name=recipe.name)
        )
    if "schedule" in recipe.functions and varies:
        raise ValueError(
            tr("Recipe {name} has a learning rate schedule of its own. Leave the schedule of the run constant, "
               "without warm-up steps and without scaling of the rate.", name=recipe.name)
        )


def doubt(recipe: RecipeFile, framework: str) -> str:
    """Return what should be known before a start, as the end of a sentence; the empty string if nothing."""
    found = []
    only_keras = [CALLBACKS] if CALLBACKS in recipe.functions and framework != "keras" else []
    unknown = [*recipe.unknown_functions, *only_keras]
    if unknown:
        names = join_names(f"{name}()" for name in unknown)
        found.append(
            tr_plural(
                "the function {names} of the recipe is not one that a run calls",
                "the functions {names} of the recipe are not ones that a run calls", len(unknown), names=names,
            )
        )
    if only_keras:
        found[-1] = tr(
            "{sentence} ({callbacks}() is for framework keras; on_epoch_end(model, metrics, folder) is called "
            "after each epoch)", sentence=found[-1], callbacks=CALLBACKS,
        )
    if recipe.named_device is not None:
        device, line = recipe.named_device
        found.append(
            tr("model() of the recipe names the device {device} (line {line}), but the strategy decides where the "
               "model is: name devices in placed_model(devices), for strategy placement", device=device, line=line)
        )
    return tr("; ").join(found)


def check_framework(recipe: RecipeFile, row: Framework) -> None:
    """Raise `ValueError` with a sentence if the recipe is for another framework, by its imports or optimizer."""
    if recipe.imports & set(row.imports):
        _check_optimizer(recipe, row)
        return
    others = [other for other in FRAMEWORKS if recipe.imports & set(other.imports)]
    if others:
        titles = join_names((other.title for other in others), "or")
        ids = join_names((other.id for other in others), "or")
        package = min(recipe.imports & set(others[0].imports))
        raise ValueError(
            tr("Recipe {name} imports {package}: it is for {titles} and cannot be trained with {title}. "
               "Choose framework {ids}, or another recipe.",
               name=recipe.name, package=package, titles=titles, title=row.title, ids=ids)
        )


def _check_steps(recipe: RecipeFile, strategy: Strategy) -> None:
    """Raise `ValueError` if the recipe has steps of its own that this strategy cannot train."""
    own = [name for name in STEP_FUNCTIONS if name in recipe.functions]
    if strategy.framework == "keras" and "collate" in own:
        raise ValueError(
            tr("Recipe {name} has collate(), which Keras' fit does not call. Choose framework tensorflow, whose "
               "own loop calls it, or let train_data() return arrays or a tf.data.Dataset without collate().",
               name=recipe.name)
        )
    if not own or not strategy.no_steps:
        return
    others = [row.name for row in strategies_of(strategy.framework) if row.target and not row.no_steps]
    raise ValueError(
        tr("Strategy {strategy} cannot train recipe {name}, which has {function}(), because {reason}. "
           "Choose strategy {others}.",
           strategy=strategy.name, name=recipe.name, function=own[0], reason=tr(strategy.no_steps),
           others=join_names(others, "or"))
    )


def _check_optimizers(recipe: RecipeFile, framework: str, strategy: Strategy) -> None:
    """Raise `ValueError` if the recipe has several optimizers that cannot be trained, or one of a whole model."""
    if not strategy.whole_model and (recipe.optimizer_needs or ("",))[0] == "model":
        raise ValueError(
            tr("optimizer() of recipe {name} needs the model, but in a pipeline no device has the whole model. "
               "Let it take the parameters, or choose another strategy.", name=recipe.name)
        )
    if "optimizers" not in recipe.functions:
        return
    problem = ""
    if framework == "keras":
        problem = tr(
            "Keras' fit has one optimizer. Choose framework tensorflow, or give the recipe optimizer() instead"
        )
    elif "training_step" not in recipe.functions:
        problem = tr("each optimizer needs a loss. Add training_step(model, batch, optimizer)")
    elif "optimizer" in recipe.functions:
        problem = tr("the recipe has optimizer(), too. Remove one of them")
    elif "val_data" in recipe.functions and not {"validation_step", "loss", "metrics"} & set(recipe.functions):
        problem = tr("nothing says how to validate. Add validation_step(model, batch), or remove val_data()")
    if problem:
        raise ValueError(
            tr("optimizers() of recipe {name} cannot be used: {problem}.", name=recipe.name, problem=problem)
        )


def _check_optimizer(recipe: RecipeFile, row: Framework) -> None:
    """Raise `ValueError` if the optimizer needs something else than the framework gives it."""
    needs = [name for name in recipe.optimizer_needs or () if name not in RUN_KEYWORDS]
    gets = 1 if row.id == "pytorch" else 0
    if len(needs) <= gets:
        return
    if gets:
        called = tr("optimizer() of {path} needs {names}, but it is called with the parameters of the model.",
                    path=recipe.path, names=join_names(needs))
    else:
        called = tr("optimizer() of {path} needs {names}, but it is called without arguments.",
                    path=recipe.path, names=join_names(needs))
    raise ValueError(join_sentences([called, tr("Give each of its other parameters a default.")]))
