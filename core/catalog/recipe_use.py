"""Whether a framework and a strategy can train a recipe, and what to know before the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.catalog.frameworks import FRAMEWORKS
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.schema.settings import RUN_KEYWORDS
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.catalog.frameworks import Framework
    from core.catalog.recipes import RecipeFile

STEP_FUNCTIONS = ("training_step", "validation_step", "collate")
"""Functions of a recipe that a training loop must know."""
STRATEGIES_WITH_STEPS: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("single", "ddp", "fsdp", "placement"),
    "tensorflow": (
        "single", "mirrored", "central_storage", "multi_worker_mirrored", "parameter_server", "towers", "tpu",
        "placement",
    ),
    "keras": ("single", "mirrored", "placement"),
}  # fmt: skip
"""The strategies of each framework that know them."""
CALLBACKS = "callbacks"
"""A function that only Keras' own `fit` has a use for."""
WITHOUT_EPOCH_END = {
    ("pytorch", "fsdp"): tr_noop("each rank has only a part of each parameter"),
    ("pytorch", "pipeline"): tr_noop("no device has the whole model"),
    ("tensorflow", "multi_worker_mirrored"): tr_noop("a call of the model by one worker would wait for the others"),
    ("tensorflow", "parameter_server"): tr_noop("the model is in another process"),
}
"""Why `on_epoch_end(model, metrics, folder)` cannot be called, by framework and strategy."""


def check_strategy(recipe: RecipeFile, framework: str, strategy: str, *, varies: bool) -> None:
    """Raise `ValueError` with a sentence if a strategy cannot train the recipe. `varies`: the run has a schedule."""
    _check_steps(recipe, framework, strategy)
    _check_epoch_end(recipe, framework, strategy)
    _check_optimizers(recipe, framework, strategy)
    _check_schedule(recipe, framework, varies=varies)


def doubt(recipe: RecipeFile, framework: str) -> str:
    """Return what should be known before a start, as the end of a sentence; the empty string if nothing."""
    found = []
    only_keras = [CALLBACKS] if CALLBACKS in recipe.functions and framework != "keras" else []
    unknown = [*recipe.unknown_functions, *only_keras]
    if unknown:
        found.append(
            tr_plural(
                "the function {names} of the recipe is not one that a run calls",
                "the functions {names} of the recipe are not ones that a run calls",
                len(unknown),
                names=join_names(f"{name}()" for name in unknown),
            )
        )
    if only_keras:
        found[-1] = tr(
            "{sentence} ({callbacks}() is for framework keras; on_epoch_end(model, metrics, folder) is called "
            "after each epoch)",
            sentence=found[-1],
            callbacks=CALLBACKS,
        )
    if recipe.named_device is not None:
        device, line = recipe.named_device
        found.append(
            tr(
                "model() of the recipe names the device {device} (line {line}), but the strategy decides where the "
                "model is: name devices in placed_model(devices), for strategy placement",
                device=device,
                line=line,
            )
        )
    return tr("; ").join(found)


def check_framework(recipe: RecipeFile, row: Framework) -> None:
    """Raise `ValueError` with a sentence if the recipe is for another framework, by its imports or optimizer."""
    _check_optimizer(recipe, row)
    if recipe.imports & set(row.imports):
        return
    others = [other for other in FRAMEWORKS if recipe.imports & set(other.imports)]
    if others:
        titles = join_names((other.title for other in others), "or")
        ids = join_names((other.id for other in others), "or")
        package = min(recipe.imports & set(others[0].imports))
        raise ValueError(
            tr(
                "Recipe {name} imports {package}: it is for {titles} and cannot be trained with {title}. "
                "Choose framework {ids}, or another recipe.",
                name=recipe.name,
                package=package,
                titles=titles,
                title=row.title,
                ids=ids,
            )
        )


def _check_schedule(recipe: RecipeFile, framework: str, *, varies: bool) -> None:
    """Raise `ValueError` if the recipe's own schedule cannot be used. `varies`: the run has a schedule, too."""
    if "schedule" not in recipe.functions:
        return
    if framework != "pytorch":
        raise ValueError(
            tr(
                "Recipe {name} has schedule(), which works with PyTorch only. Give the optimizer a schedule of "
                "keras.optimizers.schedules instead.",
                name=recipe.name,
            )
        )
    if varies:
        raise ValueError(
            tr(
                "Recipe {name} has a learning rate schedule of its own. Leave the schedule of the run constant, "
                "without warm-up steps and without scaling of the rate.",
                name=recipe.name,
            )
        )


def _check_steps(recipe: RecipeFile, framework: str, strategy: str) -> None:
    """Raise `ValueError` if the recipe has steps of its own that this strategy cannot train."""
    own = [name for name in STEP_FUNCTIONS if name in recipe.functions]
    known = STRATEGIES_WITH_STEPS[framework]
    if framework == "keras" and "collate" in own:
        raise ValueError(
            tr(
                "Recipe {name} has collate(), which Keras' fit does not call. Choose framework tensorflow, whose "
                "own loop calls it, or let train_data() return arrays or a tf.data.Dataset without collate().",
                name=recipe.name,
            )
        )
    if not own or strategy in known:
        return
    reason = tr("it divides the batch after collating it")
    if strategy == "pipeline":
        reason = tr("no device has the whole model")
    raise ValueError(
        tr(
            "Strategy {strategy} cannot train recipe {name}, which has {function}(), because {reason}. "
            "Choose strategy {others}.",
            strategy=strategy,
            name=recipe.name,
            function=own[0],
            reason=reason,
            others=join_names(known, "or"),
        )
    )


def _check_epoch_end(recipe: RecipeFile, framework: str, strategy: str) -> None:
    """Raise `ValueError` if the recipe has an `on_epoch_end` that this strategy cannot give a model."""
    reason = WITHOUT_EPOCH_END.get((framework, strategy))
    if reason is None or "on_epoch_end" not in recipe.functions:
        return
    raise ValueError(
        tr(
            "Strategy {strategy} cannot call on_epoch_end() of recipe {name}, because {reason}. Choose another "
            "strategy, or remove the function.",
            strategy=strategy,
            name=recipe.name,
            reason=tr(reason),
        )
    )


def _check_optimizers(recipe: RecipeFile, framework: str, strategy: str) -> None:
    """Raise `ValueError` if the recipe has several optimizers that cannot be trained, or one of a whole model."""
    if framework == "pytorch" and strategy == "pipeline" and (recipe.optimizer_needs or ("",))[0] == "model":
        raise ValueError(
            tr(
                "optimizer() of recipe {name} needs the model, but in a pipeline no device has the whole model. "
                "Let it take the parameters, or choose another strategy.",
                name=recipe.name,
            )
        )
    if "optimizers" not in recipe.functions:
        return
    problem = ""
    if framework != "pytorch":
        problem = tr("it works with PyTorch only. Choose framework pytorch, or give the recipe optimizer() instead")
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
    needs = None if recipe.optimizer_needs is None else [n for n in recipe.optimizer_needs if n not in RUN_KEYWORDS]
    gets = 1 if row.id == "pytorch" else 0
    if needs is None or len(needs) <= gets or not recipe.imports & set(row.imports):
        return
    if gets:
        called = tr(
            "optimizer() of {path} needs {names}, but it is called with the parameters of the model.",
            path=recipe.path,
            names=join_names(needs),
        )
    else:
        called = tr(
            "optimizer() of {path} needs {names}, but it is called without arguments.",
            path=recipe.path,
            names=join_names(needs),
        )
    raise ValueError(join_sentences([called, tr("Give each of its other parameters a default.")]))
