"""Writing the model of a checkpoint out for use elsewhere: the framework does it, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog import frameworks
from core.errors import RunError
from core.launchers.local import BOOT
from core.runs.checkpoints import whole
from core.schema.files import disk_full, not_written
from core.schema.spec import read_spec
from core.system.helper_process import HelperProcess, clean_environment

if TYPE_CHECKING:
    from core.schema.spec import RunSpec

FORMATS = {"pytorch": ("state_dict",), "tensorflow": ("keras", "saved_model"), "keras": ("keras", "saved_model")}
"""By framework; the first is the default."""
IF_FULL = "Free some space, or name a folder on another disk."


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written."""

    folder: Path
    format: str
    checkpoint: str
    step: int
    files: tuple[str, ...]
    """The names of what is in the folder."""


def export_model(
    run_dir: Path, folder: Path, *, format_name: str | None = None, checkpoint_name: str | None = None
) -> Exported:
    """Write the model of a run's checkpoint, the latest where none is named, into a new folder.

    May take a while: the framework is loaded. Raises `ValueError` with a sentence for what cannot be
    exported so, `RunError` when it went wrong; nothing is left then.
    """
    spec = read_spec(run_dir)
    chosen = _format(spec, format_name)
    checkpoint = whole(run_dir, checkpoint_name)
    folder = folder.absolute()
    _check(folder)
    temporary = _temporary(folder)
    try:
        answer = _ask(spec, run_dir, checkpoint, temporary, chosen)
        temporary.rename(folder)
    except OSError as error:
        raise RunError(_cannot_write(folder, error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Exported(
        folder=folder, format=chosen, checkpoint=checkpoint.name, step=answer["step"],
        files=tuple(sorted(path.name for path in folder.iterdir())),
    )  # fmt: skip


def _format(spec: RunSpec, wanted: str | None) -> str:
    if spec.script is not None:
        raise ValueError("A script keeps its model to itself: it is where the script has written it.")
    known = FORMATS[spec.framework]
    if wanted is None:
        return known[0]
    if wanted not in known:
        title = frameworks.framework(spec.framework).title
        raise ValueError(f"A {title} model is not exported as {wanted}. Choose {' or '.join(known)}.")
    return wanted


def _check(folder: Path) -> None:
    """Raises `ValueError` for a folder that holds something, or cannot be made."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"{folder} exists already and is not an empty folder. Name another.")


def _temporary(folder: Path) -> Path:
    """A folder beside the one that is wanted: it takes its place by a rename when all is there."""
    temporary = folder.with_name(f".{folder.name}-{os.urandom(4).hex()}")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise RunError(_cannot_write(folder.parent, error)) from error
    return temporary


def _cannot_write(folder: Path, error: OSError) -> str:
    return not_written(folder, error, if_full=IF_FULL, otherwise="Name another folder.")


def _ask(spec: RunSpec, run_dir: Path, checkpoint: Path, folder: Path, format_name: str) -> dict[str, Any]:
    """Have the framework's process write into `folder`; returns its answer. Raises `RunError` with its sentence."""
    with tempfile.TemporaryDirectory() as own:
        answer = Path(own) / "answer.json"
        request = {
            "run_dir": str(run_dir.resolve()), "checkpoint": str(checkpoint.resolve()), "folder": str(folder),
            "format": format_name, "answer": str(answer),
        }  # fmt: skip
        said = _run(spec, json.dumps(request))
        try:
            told: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise RunError(f"The export ended without a word. {_last_line(said)}".strip()) from None
    if told.get("full"):
        raise RunError(disk_full(folder.parent, IF_FULL))
    if "error" in told:
        raise RunError(f"The model could not be exported: {told['error']}")
    return told


def _run(spec: RunSpec, request: str) -> str:
    """Run the framework's process to its end and return what it printed. It sees no GPU, and ends when we do."""
    try:
        process = HelperProcess(
            [spec.python, str(BOOT), "--export", request],
            cwd=spec.working_dir if Path(spec.working_dir).is_dir() else None,
            environment={**clean_environment(), "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"},
            stdin=True,  # the dead-man switch: it exits when this process, and with it the pipe, is gone
            stderr=subprocess.STDOUT,
            max_bytes=sys.maxsize,
        )
    except OSError as error:
        raise RunError(f"{spec.python}, which trained this run, cannot be started: {error.strerror}.") from error
    with process:
        process.wait()
    return process.output.decode(errors="replace")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f"It printed last: {lines[-1]}" if lines else ""
