"""A worker's outer border: pin, hold the dead-man switch, train, record what went wrong."""

from __future__ import annotations

import importlib
import os

from ..events import RecordError
from ..spec import Placement
from . import deadman
from .context import Context
from .recipe import LoadedRecipe

EXIT_ERROR = 1
EXIT_RECORD = 74  # EX_IOERR of sysexits.h: what happened could not be written down
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


def main(run_dir: str, placement_json: str) -> int:
    """Train as one worker of a run; returns the exit code. Everything that goes wrong is recorded."""
    deadman.hold()
    placement = Placement.from_text(placement_json)
    if placement.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, placement.cores)  # before the framework counts the cores it may use
    context = Context(run_dir, placement)
    try:
        return _train(context)
    finally:
        context.close()


def _train(context: Context) -> int:
    try:
        strategy = importlib.import_module(f".{context.placement.target}", package=__package__)
        strategy.train(LoadedRecipe(context.spec), context)
        context.done()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except RecordError as error:
        return _record(context, error, EXIT_RECORD)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the outer border: user code may raise anything)
        return _record(context, error, EXIT_ERROR)
    return 0


def _record(context: Context, error: BaseException, code: int) -> int:
    try:
        context.failed(error)
    except RecordError:
        return EXIT_RECORD
    return code
