"""Making a run directory and starting its supervisor, and the sentences for when that cannot be done."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.schema.files import FULL, not_written
from core.schema.paths import CHECKPOINTS, CONTROL, EVENTS, LOG_FILE, SOCKETS
from core.system import processes
from core.system.own_processes import SUPERVISOR

if TYPE_CHECKING:
    from core.system.processes import ProcessId


ELSEWHERE = "Keep runs elsewhere with --runs DIR."
_CODE_ROOT = Path(__file__).resolve().parents[2]


def launch_supervisor(run_dir: Path, *options: str) -> ProcessId | None:
    """Start the supervisor of a run directory; None when it has ended already. `options`: `--resume`.

    A shell starts it in the background and ends: the supervisor then is no child of ours, so a
    window that stays open for weeks gathers no zombies, and one that is closed leaves none behind.
    It starts in the folder that holds `core`, so that no `core` of the user's can take its place.
    """
    with (run_dir / LOG_FILE).open("ab") as log:
        shell = subprocess.run(
            [
                "/bin/sh",
                "-c",
                '"$@" >&2 & echo $!',
                "sh",
                sys.executable,
                "-m",
                SUPERVISOR,
                str(run_dir.resolve()),
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=_CODE_ROOT,
            # Started from within a training, a run is none of that training's processes.
            env={name: value for name, value in os.environ.items() if name not in {processes.TAG, processes.RUN_DIR}},
            start_new_session=True,
            check=True,
        )
    return processes.identify(int(shell.stdout))


def new_directory(runs_root: Path, name: str) -> Path:
    """An empty run directory that nobody else has: made, not looked for."""
    runs_root.mkdir(parents=True, exist_ok=True)
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "run"
    run_dir = runs_root.resolve() / f"{time.strftime('%Y%m%d-%H%M%S')}-{plain[:40]}-{os.urandom(2).hex()}"
    run_dir.mkdir(mode=0o700)
    for part in (EVENTS, CONTROL, CHECKPOINTS):
        (run_dir / part).mkdir(mode=0o700)
    return run_dir


def cannot_start(folder: Path, error: OSError | subprocess.CalledProcessError) -> str:
    """Why no supervisor could be started, be it of a new run below a folder or of the run in it: a sentence."""
    if isinstance(error, OSError):
        return cannot_write(folder, error)
    return f"The run's supervisor could not be started in {folder}: {error}."


def cannot_make(runs_root: Path, error: OSError | subprocess.CalledProcessError) -> str:
    """Why no run could be started under a root, which is made where there is none: a sentence."""
    if isinstance(error, OSError) and not runs_root.is_dir():
        above = next((each for each in (runs_root, *runs_root.parents) if each.exists()), runs_root)
        if not above.is_dir():
            return f"{runs_root} cannot be a folder of runs, since {above} is a file. {ELSEWHERE}"
        if error.errno not in FULL:
            return f"{runs_root} cannot be made in {above}: {error.strerror}. {ELSEWHERE}"
    return cannot_start(runs_root, error)


def cannot_write(folder: Path, error: OSError) -> str:
    """Why nothing could be written into a folder: a sentence."""
    if error.errno == errno.ENOENT and not folder.exists():
        return f"{folder} is not there any more. Start another run."
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return f"{folder} is damaged: {error.filename or 'a part of it'} is missing, or no folder. Start another run."
    denied = error.errno in {errno.EACCES, errno.EPERM}
    return not_written(
        folder, error, if_full="Free some space, or keep runs elsewhere with --runs DIR.",
        otherwise="Change its permissions, or keep runs elsewhere with --runs DIR." if denied else ELSEWHERE,
    )  # fmt: skip


def remove_sockets(run_dir: Path) -> None:
    """Remove what data-loader workers that were killed could not: nobody of the run is left who uses it."""
    for folder in run_dir.glob(SOCKETS):
        shutil.rmtree(folder, ignore_errors=True)


def folder_problem(root: Path) -> str | None:
    """Why no run can be kept in this folder, in a sentence; None when one can. It is made where there is none."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            return None
    except OSError as error:
        return (
            f"Runs cannot be kept in {root}: {error.strerror}. "
            "Change its permissions, or choose another folder with --runs DIR."
        )
