"""The exporter's outer border: no run, no devices; one answer, or one sentence on what went wrong."""

from __future__ import annotations

import importlib
import json
import os
import traceback
from pathlib import Path
from typing import Any

from ..schema import checkpoint
from ..schema.files import FULL
from ..schema.spec import read_spec
from . import deadman, export_bundle
from .recipe import LoadedRecipe

PACKAGES = {"pytorch": "pytorch", "tensorflow": "keras", "keras": "keras"}
"""By framework, the package that has its exporter: one for both that train Keras models."""
GONE = "Checkpoint {} gave way to newer ones before it was read. Export again, or pause the run first."
"""A run that goes on keeps so many and no more, and a framework takes its time to load."""
MIN_BYTES = 64 * 1024
"""A disk that does not take so much more is full."""


def main(request_json: str) -> int:
    """Do what the request says; returns the exit code."""
    deadman.hold()
    request = json.loads(request_json)
    answer = Path(request["answer"])
    try:
        told = _export(request)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the outer border: user code may raise anything)
        traceback.print_exception(error)
        source = Path(request["checkpoint"])
        sentence = _sentence(error) if source.exists() else GONE.format(source.name)
        told = {"error": sentence, "full": _is_full(Path(request["folder"]), error)}
    answer.write_text(json.dumps(told), encoding="utf-8")
    return 1 if "error" in told else 0


def _export(request: dict[str, Any]) -> dict[str, Any]:
    run_dir, source, folder = (Path(request[name]) for name in ("run_dir", "checkpoint", "folder"))
    spec = read_spec(run_dir)
    stand = checkpoint.read(source)
    exporter = importlib.import_module(f".{PACKAGES[spec.framework]}.export", package=__package__)
    recipe = LoadedRecipe(spec)
    exporter.export(recipe, source, folder, request["format"])
    export_bundle.write(recipe, spec, stand, source.name, folder)
    return {"step": stand.step}


def _is_full(folder: Path, error: BaseException) -> bool:
    """Whether it went wrong because the disk is full: frameworks tell it in words of their own, or not at all."""
    if isinstance(error, OSError):
        return error.errno in FULL
    probe = folder / ".probe"
    try:
        with probe.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, MIN_BYTES)
    except OSError as refused:
        return refused.errno in FULL
    finally:
        probe.unlink(missing_ok=True)
    return False


def _sentence(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    sentence = text if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {text}"
    return sentence + ("" if sentence.endswith((".", "!", "?")) else ".")
