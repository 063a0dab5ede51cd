"""A worker's outer border: pin, hold the dead-man switch, train, record what went wrong."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any

from ..schema.events import RecordError
from ..schema.rank import RankAssignment
from . import deadman
from .context import Context
from .recipe import LoadedRecipe

EXIT_ERROR = 1
EXIT_RECORD = 74  # EX_IOERR of sysexits.h: what happened could not be written down
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


class FrameworkError(ImportError):
    """The framework is not there, or broken."""


def main(run_dir: str, placement_json: str) -> int:
    """Train as one worker of a run; returns the exit code. Everything that goes wrong is recorded."""
    deadman.hold()
    placement = RankAssignment.from_text(placement_json)
    if placement.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, placement.cores)  # before the framework counts the cores it may use
    context = Context(run_dir, placement)
    try:
        return _train(context)
    finally:
        context.close()
        _thaw()


def _thaw() -> None:
    """Have garbage collected at the end after all (see `Course.begin`), where it would be complained of.

    Triton, which comes with PyTorch, is made with nanobind from 3.9 on: that prints a page on what was never freed.
    """
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("triton._C.")]
    if any(type(value).__module__ == "nanobind" for module in ours for value in vars(module).values()):
        gc.unfreeze()


def _train(context: Context) -> int:
    try:
        strategy = _strategy(context)
        strategy.train(LoadedRecipe(context.spec), context)
        context.done()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except RecordError as error:
        return _record(context, error, EXIT_RECORD)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the outer border: user code may raise anything)
        return _record(context, error, EXIT_ERROR)
    return 0


def _strategy(context: Context) -> Any:  # noqa: ANN401 (the strategy's module)
    """The strategy's loop, and with it its framework. Raises `FrameworkError` where that cannot be imported."""
    gc.disable()  # a framework makes a million objects that all stay: in TensorFlow's import a tenth of the time
    try:
        return importlib.import_module(f".{context.placement.target}", package=__package__)
    except Exception as error:  # (whatever a broken installation raises)
        name = context.spec.framework
        raise FrameworkError(
            f"{name} could not be imported by {sys.executable}: {type(error).__name__}: {error}. "
            "Install it there anew, or repair what it names."
        ) from error
    finally:
        gc.enable()


def _explained(context: Context, error: BaseException) -> str | None:
    """What the framework's error means to people, where its package knows."""
    if isinstance(error, FrameworkError):
        return None
    framework = context.placement.target.partition(".")[0]
    errors = importlib.import_module(f".{framework}._errors", package=__package__)
    explained: str | None = errors.explain(error, context)
    return explained


def _record(context: Context, error: BaseException, code: int) -> int:
    try:
        context.failed(error, _explained(context, error))
    except RecordError:
        return EXIT_RECORD
    return code
