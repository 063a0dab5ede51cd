"""Export the model of a checkpoint for other programs, in a process that loads the framework."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.catalog import frameworks
from core.errors import RunError
from core.language import Message, tr, tr_noop
from core.launchers.local import BOOT
from core.runs.outputs import whole
from core.schema.files import disk_full
from core.schema.spec import RunSpec, read_spec
from core.system.folders import writing
from core.system.helper_process import HelperProcess, clean_environment

FORMATS = {"pytorch": ("state_dict",), "tensorflow": ("keras", "saved_model"), "keras": ("keras", "saved_model")}
"""The formats of each framework; the first is the default."""
IF_FULL = tr_noop("Free some space, or name a folder on another disk.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An exported model."""

    folder: Path
    format: str
    checkpoint: str
    step: int
    files: tuple[str, ...]
    """The names of the files in the folder."""


def export_model(
    run_dir: Path, folder: Path, *, format_name: str | None = None, checkpoint_name: str | None = None
) -> Exported:
    """Write the model of a run's checkpoint into a new folder; without a name, that of the latest checkpoint.

    Takes a while, because the framework is loaded. Raises `ValueError` with a sentence for a choice that cannot be
    exported, `RunError` if the export failed; no file is left then.
    """
    spec = read_spec(run_dir)
    chosen = _format(spec, format_name)
    checkpoint = whole(run_dir, checkpoint_name)
    folder = folder.absolute()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(tr("{folder} exists already and is not an empty folder. Name another.", folder=folder))
    temporary = folder.with_name(f".{folder.name}-{os.urandom(4).hex()}")  # renamed when it is complete
    remedy, full = tr("Name another folder."), tr(IF_FULL)
    with writing(folder.parent, remedy, if_full=full):
        temporary.mkdir(parents=True)
    try:
        with writing(folder, remedy, if_full=full):
            answer = _ask(spec, run_dir, checkpoint, temporary, chosen)
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Exported(
        folder=folder, format=chosen, checkpoint=checkpoint.name, step=answer["step"],
        files=tuple(sorted(path.name for path in folder.iterdir())),
    )


def _format(spec: RunSpec, wanted: str | None) -> str:
    if spec.script is not None:
        raise ValueError(tr("The model of a script cannot be exported. Look for it where the script saves it."))
    known = FORMATS[spec.framework]
    if wanted is None:
        return known[0]
    if wanted not in known:
        title, choice = frameworks.framework(spec.framework).title, " or ".join(known)
        sentence = tr_noop("A {title} model cannot be exported as {wanted}. Choose {known}.")
        raise ValueError(tr(sentence, title=title, wanted=wanted, known=choice))
    return wanted


def _ask(spec: RunSpec, run_dir: Path, checkpoint: Path, folder: Path, format_name: str) -> dict[str, Any]:
    """Let the framework's process write into `folder` and return its answer. Raises `RunError` with its sentence."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "answer.json"
        request = {
            "run_dir": str(run_dir.resolve()), "checkpoint": str(checkpoint.resolve()), "folder": str(folder),
            "format": format_name, "answer": str(file),
        }
        output = _run(spec, json.dumps(request))
        try:
            answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            lines = output.strip().splitlines()
            last = tr("Its last line of output: {lines}", lines=lines[-1]) if lines else ""
            sentence = tr_noop("The model could not be exported: the process that reads it exited early. {last_line}")
            raise RunError(tr(sentence, last_line=last).strip()) from None
    if answer.get("full"):
        raise RunError(disk_full(folder.parent, tr(IF_FULL)))
    if "error" in answer:
        raise RunError(tr("The model could not be exported: {error}", error=tr(Message.read(answer["error"]))))
    return answer


def _run(spec: RunSpec, request: str) -> str:
    """Run the framework's process to its end and return what it printed. It sees no GPU, and ends with this process."""
    try:
        process = HelperProcess(
            [spec.python, str(BOOT), "--export", request],
            cwd=spec.working_dir if Path(spec.working_dir).is_dir() else None,
            environment={**clean_environment(), "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"},
            stdin=True,  # the dead-man switch: it exits when this process, and with it the pipe, is gone
            stderr=subprocess.STDOUT, max_bytes=sys.maxsize,
        )
    except OSError as error:
        sentence = tr_noop("{python}, which trained this run, cannot be started: {strerror}.")
        raise RunError(tr(sentence, python=spec.python, strerror=error.strerror)) from error
    with process:
        process.wait()
    return process.output.decode(errors="replace")
