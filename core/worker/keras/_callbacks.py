"""The recipe's own `callbacks()`: make them, check them, and keep what they write below the run's `outputs/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras import callbacks as of_keras

from ...language import tr
from ..recipe import CALLBACKS, wrong_return
from ..training.epoch_end import outputs_folder

if TYPE_CHECKING:
    import keras

    from ..context import Context
    from ..recipe import LoadedRecipe

PATHS = ((of_keras.ModelCheckpoint, "filepath"), (of_keras.CSVLogger, "filename"), (of_keras.TensorBoard, "log_dir"))
"""The attributes of Keras' own callbacks that name files."""
FREQUENCIES = {of_keras.ModelCheckpoint: "save_freq", of_keras.TensorBoard: "update_freq"}
"""The attributes that say whether these callbacks work after batches; "epoch": only after epochs."""
CHANGE_RATE = (of_keras.LearningRateScheduler, of_keras.ReduceLROnPlateau)


def recipe_callbacks(recipe: LoadedRecipe, context: Context, model: keras.Model) -> list[of_keras.Callback]:
    """Return the recipe's callbacks; none if it has no such function. Raises `TypeError` and `ValueError`."""
    if not recipe.has(CALLBACKS):
        return []
    folder = outputs_folder(context)
    found = recipe.call(CALLBACKS, folder) if recipe.takes(CALLBACKS, "folder") else recipe.call(CALLBACKS)
    callbacks = _checked(found, recipe)
    for callback in callbacks:
        _refuse(callback, context, model)
        _place(callback, folder)
        if isinstance(callback, of_keras.CSVLogger) and context.resumed:
            callback.append = True  # else it would empty its file
    if callbacks and context.resumed:
        context.notice(
            tr(
                "The callbacks of {recipe} start from the beginning, because Keras does not save their state: "
                "EarlyStopping, ReduceLROnPlateau and ModelCheckpoint have lost their counts and best values.",
                recipe=recipe.name,
            )
        )
    return callbacks


def overrides(callback: of_keras.Callback, *methods: str) -> bool:
    """Return whether a callback has a method of its own by one of these names."""
    found = (getattr(getattr(callback, name), "__func__", None) for name in methods)
    return any(own is not getattr(of_keras.Callback, name) for name, own in zip(methods, found, strict=True))


def reads_batches(callback: of_keras.Callback) -> bool:
    """Return whether a callback looks at the numbers of each batch."""
    if type(callback) in FREQUENCIES:  # they have the method also where they do nothing in it
        return bool(getattr(callback, FREQUENCIES[type(callback)]) != "epoch")
    return overrides(callback, "on_train_batch_end", "on_batch_end")


def read_metrics_of_batches(callbacks: list[of_keras.Callback]) -> bool:
    """Return whether the recipe's metrics must be measured on every batch, whatever that costs."""
    return any(reads_batches(each) and type(each) is not of_keras.TerminateOnNaN for each in callbacks)


def restores_weights(callbacks: list[of_keras.Callback]) -> bool:
    """Return whether the end of the training may give the model other weights."""
    restoring = (each for each in callbacks if isinstance(each, of_keras.EarlyStopping))
    return any(each.restore_best_weights for each in restoring)


def _checked(found: Any, recipe: LoadedRecipe) -> list[of_keras.Callback]:  # noqa: ANN401 (whatever the recipe returns)
    remedy = tr("Return a list of objects of keras.callbacks.Callback.")
    if not isinstance(found, (list, tuple)):
        raise wrong_return(CALLBACKS, recipe, found, remedy)
    for each in found:
        if isinstance(each, type) or not isinstance(each, of_keras.Callback):
            kind = tr("the class {name}", name=each.__name__) if isinstance(each, type) else type(each).__name__
            raise TypeError(
                tr(
                    "callbacks() of {recipe} returned {kind} in its list. {remedy}",
                    recipe=recipe.name,
                    kind=kind,
                    remedy=remedy,
                )
            )
    return list(found)


def _refuse(callback: of_keras.Callback, context: Context, model: keras.Model) -> None:
    """Raise `ValueError` for a callback that would work against the run."""
    kind = type(callback).__name__
    training = context.training
    if isinstance(callback, of_keras.BackupAndRestore):
        raise ValueError(  # noqa: TRY004 (the user's choice, not a type of ours)
            tr("callbacks() has {kind}, but the run writes and restores its own checkpoints. Remove it.", kind=kind)
        )
    if isinstance(callback, CHANGE_RATE) and (training.schedule != "constant" or training.warmup_steps):
        raise ValueError(
            tr(
                "callbacks() has {kind}, which sets the learning rate, and so does the run's own schedule. Leave the "
                "run's schedule constant, without warm-up steps, or remove the callback.",
                kind=kind,
            )
        )
    if isinstance(callback, of_keras.ModelCheckpoint) and not callback.save_weights_only:
        try:
            model.get_config()
        except NotImplementedError:
            raise ValueError(
                tr(
                    "callbacks() has {kind}, but Keras cannot save a whole model of the class {model}. Give it "
                    "save_weights_only=True, or the class get_config().",
                    kind=kind,
                    model=type(model).__name__,
                )
            ) from None


def _place(callback: of_keras.Callback, folder: Path) -> None:
    """Let relative paths of Keras' own callbacks begin in the run's folder."""
    for kind, attribute in PATHS:
        if isinstance(callback, kind):
            path = str(getattr(callback, attribute))
            if "://" not in path and not Path(path).is_absolute():
                setattr(callback, attribute, str(folder / path))
            if isinstance(callback, of_keras.CSVLogger):  # the others make their folders
                Path(callback.filename).parent.mkdir(parents=True, exist_ok=True)
