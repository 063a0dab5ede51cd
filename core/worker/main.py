"""Run one worker: start the dead-man switch, pin the process to its cores, train, record any error."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from ..language import tr
from ..schema.event_kinds import Done
from ..schema.events import RecordError
from ..schema.paths import STACKS
from ..schema.spec import RankAssignment
from . import errors
from .boot import start_dead_man_switch
from .context import Context
from .recipe import LoadedRecipe, RecipeFunctionError

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_LOSSES_S = 4.0
"""Seconds to wait for the last losses after an error or SIGINT, which SIGTERM follows after five."""
CHILDREN_S = 0.5
"""Seconds to wait for the end of processes that load data, after an error."""
EXIT_ERROR = 1
EXIT_RECORD = 74  # EX_IOERR of sysexits.h: an event could not be written
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


class FrameworkError(ImportError):
    """The framework is not installed, or its installation is broken."""


def main(run_dir: str, assignment_json: str) -> int:
    """Train as one worker of a run and return the exit code. Record every error in the run's events."""
    start_dead_man_switch()
    _print_stacks_on_signal()
    assignment = RankAssignment.from_text(assignment_json)
    if assignment.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, assignment.cores)  # before the framework counts the cores it may use
    context = Context(run_dir, assignment)
    try:
        return _train(context)
    finally:
        context.close()
        _unfreeze_for_nanobind()


def _print_stacks_on_signal() -> None:
    """Let this process, and those that it forks, tell where they are: also where the interpreter's lock is held."""
    with contextlib.suppress(OSError, RuntimeError):  # a kernel or a container that lends no such file
        faulthandler.register(signal.SIGRTMAX, file=os.memfd_create(STACKS), all_threads=True)


def _unfreeze_for_nanobind() -> None:
    """Undo `gc.freeze` (see `TrainingController.begin`) where nanobind would report frozen objects as leaks.

    Triton, which PyTorch installs, uses nanobind since 3.9. Nanobind prints a page about objects never freed.
    """
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("triton._C.")]
    if any(type(value).__module__ == "nanobind" for module in ours for value in vars(module).values()):
        gc.unfreeze()


def _train(context: Context) -> int:
    try:
        context.enter_phase("framework", python=sys.version.partition(" ")[0])
        strategy = _import_strategy(context)
        _await_fetched(context)
        framework = context.spec.framework
        module = sys.modules.get({"pytorch": "torch"}.get(framework, framework))
        context.enter_phase("recipe", framework=str(getattr(module, "__version__", "")))
        recipe = LoadedRecipe(context.spec, context.run_dir, enter_phase=context.enter_phase)
        context.located, context.computes_loss = recipe.located, recipe.computes_loss
        context.needs_epochs = recipe.needs_epochs
        strategy(recipe, context)
        context.record_peaks()
        # Training has ended as planned or on request. A worker that exits without this event has failed.
        context.record(Done(rank=context.rank, paused=context.paused))
    except KeyboardInterrupt:  # the step of a stop that follows a request, where a step or the data hang
        record_last(context)
        return EXIT_INTERRUPTED
    except RecordError as error:
        return _record(context, error, EXIT_RECORD)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the outer border: user code may raise anything)
        record_last(context)
        _end_children()
        return _record(context, error, EXIT_ERROR)
    return 0


def record_last(context: Context) -> None:
    """Record the last losses and the peaks of memory before the end, where the framework can still fetch them.

    After an error of a device this may raise, or never return: then the error is recorded without them.
    """

    def record() -> None:
        for each in (context.record_last, context.record_peaks):
            with contextlib.suppress(Exception):
                each()

    recording = threading.Thread(target=record, daemon=True)
    recording.start()
    recording.join(LAST_LOSSES_S)


def _end_children() -> None:
    """End the processes that load data, as Python's exit would: the supervisor ends this one as soon as it reads why.

    It would find them alive, and tell the user about processes that outlived their worker.
    """
    module = sys.modules.get("multiprocessing.process")
    children = [] if module is None else [each for each in module.active_children() if each.daemon]
    if children:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's handler raises when a loader ends
    for child in children:
        child.terminate()
    until = time.monotonic() + CHILDREN_S
    for child in children:
        child.join(max(0.0, until - time.monotonic()))


def _import_strategy(context: Context) -> Callable[[LoadedRecipe, Context], object]:
    """Import the strategy's module, and with it the framework. Raises `FrameworkError` where that fails."""
    module, _, function = context.assignment.target.partition(":")
    gc.disable()  # an import creates a million objects that all stay; collecting takes a tenth of TensorFlow's import
    try:
        # The framework's package sets environment variables that the framework reads when a recipe imports it.
        importlib.import_module(f".{context.spec.framework}", package=__package__)
        strategies = importlib.import_module(f".{module}", package=__package__)
    except Exception as error:  # (whatever a broken installation raises)
        name = context.spec.framework
        raise FrameworkError(
            tr(
                "{name} could not be imported by {executable}: {kind}: {error}. "
                "Install {name} there again, or repair the package that the error names.",
                name=name,
                executable=sys.executable,
                kind=type(error).__name__,
                error=error,
            )
        ) from error
    finally:
        # Garbage collection skips frozen objects. Else it goes through all of the framework's objects again and again
        # while the recipe is imported, and while PyTorch imports its compiler with the first optimizer.
        gc.freeze()
        gc.enable()
    # TensorFlow imports generated code from files in the temporary folder, where Python would cache it for ever. The
    # framework itself, imported above, is cached.
    sys.dont_write_bytecode = context.spec.framework != "pytorch" or sys.dont_write_bytecode
    train: Callable[[LoadedRecipe, Context], object] = getattr(strategies, function or "train")
    return train


def _is_raised_by_us(error: BaseException) -> bool:
    """Return whether a check of ours has raised the error, and no function of a user's or of a framework's."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(f"{__package__}.")


def _record(context: Context, error: BaseException, code: int) -> int:
    explanation = str(error) if isinstance(error, RecipeFunctionError) else None
    if not isinstance(error, (RecipeFunctionError, FrameworkError)):
        explanation = errors.explain(error, context)
    if explanation is None and _is_raised_by_us(error):
        explanation = context.located(str(error))
    if isinstance(error, RecipeFunctionError) and error.__cause__ is not None:
        error = error.__cause__  # its traceback ends in the recipe
    try:
        context.record_error(error, explanation)
    except RecordError:
        return EXIT_RECORD
    return code


def fetch(recipe: LoadedRecipe, context: Context) -> None:
    """Call a recipe's functions in a process with a network, so that they download, before its workers load it.

    Workers that listen run in a network of their own (`core.launchers.loopback`). A function that downloads must keep
    the result in a file, as Keras and TensorFlow Datasets do. The workers, which each go on with one byte, find that
    file.
    """
    for function in ("train_data", "val_data"):
        if recipe.has(function):
            recipe.call(function)
    try:  # it may download weights; it may also need a GPU, which this process does not have
        recipe.call("model")
    except Exception as error:  # noqa: BLE001 (user code may raise anything)
        traceback.print_exc()
        context.notice(
            tr(
                "model() of {recipe} failed in the process that fetches data, which has no GPU "
                "({kind}: {error}). The workers call it again, without a network.",
                recipe=recipe.name,
                kind=type(error).__name__,
                error=error,
            )
        )
    assert context.assignment.gate is not None
    os.write(context.assignment.gate, bytes(context.world_size))


def _await_fetched(context: Context) -> None:
    """Wait for the process that fetches, if there is one. If that process fails, the supervisor ends this one."""
    if not context.has_no_network:
        return
    context.enter_phase("download")
    gate = context.assignment.gate
    assert gate is not None
    fetched = os.read(gate, 1)
    os.close(gate)
    while not fetched:
        signal.pause()
