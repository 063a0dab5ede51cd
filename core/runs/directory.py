"""A run directory as files: make one, start its supervisor, and word why that failed.

It has a copy of the recipe or script that the run trains, since the user's file changes between runs. A part of a run
of another machine, the head, is a run directory here, in which some of the ranks train: the head starts it through the
agent, follows its files, and removes it (`core.hosts.parts.head`).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from core.language import tr, tr_noop
from core.runs import foreign
from core.schema import files, paths
from core.schema.codec import decode, encode
from core.schema.files import FULL, is_regular, make_folder, not_written, open_to_append, read_whole, write_whole
from core.schema.paths import CHECKPOINTS, CONTROL, EVENTS, LOG_FILE, WORKLOAD_FILE
from core.schema.spec import RankAssignment, RunSpec
from core.system.logout import start_in_background
from core.system.own_processes import SUPERVISOR, own_command
from core.system.processes import ProcessId

ROOT_MODE = 0o755
"""Permissions of a folder of runs that is made, whatever the umask: others may list it, and add no runs."""
ELSEWHERE = tr_noop("Keep runs elsewhere with --runs DIR.")


def launch_supervisor(run_dir: Path, *options: str, **variables: str) -> ProcessId | None:
    """Start the supervisor of a run directory; see `launch`. `options`: see `core.supervisor.__main__`."""
    return launch(run_dir, SUPERVISOR, *options, **variables)


def launch(run_dir: Path, module: str, *options: str, **variables: str) -> ProcessId | None:
    """Start a process of ours that owns a run directory; return None if it has exited already.

    `variables`: changes to its environment. Raises `OSError`, `CalledProcessError` or, for a copy, `RunError`.
    """
    foreign.refuse(run_dir)
    with os.fdopen(open_to_append(run_dir / LOG_FILE), "ab") as log:
        command = own_command(module, str(run_dir.resolve()), *options)
        changes = ["env", *map("=".join, variables.items())] if variables else []
        return start_in_background([*changes, *command], log.fileno(), survives_logout=True)


def new_directory(runs_root: Path, name: str) -> Path:
    """Make an empty run directory with a unique name. Raises `OSError`."""
    make_folder(runs_root, ROOT_MODE)
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "run"
    while True:
        run_dir = runs_root.resolve() / f"{time.strftime('%Y%m%d-%H%M%S')}-{plain[:40]}-{os.urandom(2).hex()}"
        with contextlib.suppress(FileExistsError):  # two runs of one second may draw the same four digits
            run_dir.mkdir(mode=0o700)
            break
    for part in (EVENTS, CONTROL, CHECKPOINTS):
        (run_dir / part).mkdir(mode=0o700)
    return run_dir


def cannot_start(folder: Path, error: OSError | subprocess.CalledProcessError) -> str:
    """Return why a supervisor could not be started. `folder`: the run directory, or the root of a new run."""
    if isinstance(error, OSError):
        return cannot_write(folder, error)
    return tr("The run's supervisor could not be started in {folder}: {error}.", folder=folder, error=error)


def cannot_make(runs_root: Path, error: OSError | subprocess.CalledProcessError) -> str:
    """Return why no run could be started under a root."""
    if isinstance(error, OSError) and not runs_root.is_dir():
        above = next((each for each in (runs_root, *runs_root.parents) if each.exists()), runs_root)
        if not above.is_dir():
            return tr(
                "{runs_root} cannot be a folder of runs, since {above} is a file. {remedy}",
                runs_root=runs_root, above=above, remedy=tr(ELSEWHERE),
            )
        if error.errno not in FULL:
            return tr(
                "{runs_root} could not be created in {above}: {strerror}. {remedy}",
                runs_root=runs_root, above=above, strerror=error.strerror, remedy=tr(ELSEWHERE),
            )
    return cannot_start(runs_root, error)


def cannot_write(folder: Path, error: OSError) -> str:
    """Return why nothing could be written into a run directory or a root, and what to do."""
    if error.errno == errno.ENOENT and not folder.exists():
        return tr("{folder} no longer exists. Start another run.", folder=folder)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        what = error.filename or tr("a part of it")
        return tr(
            "{folder} is damaged: {file} is missing or is not a folder. Start another run.", folder=folder, file=what
        )
    denied = error.errno in {errno.EACCES, errno.EPERM}
    return not_written(
        folder, error, if_full=tr("Free some space, or keep runs elsewhere with --runs DIR."),
        otherwise=tr("Change its permissions, or keep runs elsewhere with --runs DIR.") if denied else tr(ELSEWHERE),
    )


def folder_problem(root: Path) -> str | None:
    """Return why runs cannot be kept in this folder; None if they can. Makes the folder if there is none."""
    try:
        make_folder(root, ROOT_MODE)
        with tempfile.TemporaryFile(dir=root):
            return None
    except OSError as error:
        return tr(
            "Runs cannot be kept in {root}: {strerror}. "
            "Change its permissions, or choose another folder with --runs DIR.",
            root=root, strerror=error.strerror,
        )


def printed_logs(run_dir: Path) -> list[Path]:
    """Return the output files of all ranks that are not empty."""
    ranks = sorted(run_dir.glob(paths.RANK_LOGS), key=lambda path: (len(path.name), path.name))
    return [path for path in (run_dir / LOG_FILE, *ranks) if is_regular(path) and path.stat().st_size]


MAX_WORKLOAD_BYTES = 1024 * 1024
"""Largest file that is kept: a recipe or a script is text that somebody wrote."""


def workload_file(spec: RunSpec) -> Path | None:
    """Return the file that a run trains; of a folder its `__main__.py`. None for a module, which Python finds."""
    if spec.script is None:
        return Path(spec.own_recipe.path)
    if not spec.script.path:
        return None
    path = Path(spec.script.path)
    return path / "__main__.py" if path.is_dir() else path


def keep_workload(run_dir: Path, spec: RunSpec) -> None:
    """Keep a copy of what a new run trains. A file that cannot be read, or is too large, is left out.

    Raises `OSError` when the copy cannot be written.
    """
    path = workload_file(spec)
    text = None if path is None else _read(path)
    if text is not None:
        write_whole(run_dir / WORKLOAD_FILE, text)


def workload_text(run_dir: Path, spec: RunSpec, started: float | None, *, foreign: bool) -> str | None:
    """Return the text that a run trains, or trained; None if it is not known.

    If no copy was kept, it is the user's file, unless that has changed since the start.
    `started`: unix seconds. `foreign`: the run belongs to another user, whose spec could name any file.
    """
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return read_whole(run_dir / WORKLOAD_FILE, MAX_WORKLOAD_BYTES).decode()
    path = None if foreign or started is None else workload_file(spec)
    if path is None:
        return None
    with contextlib.suppress(OSError):
        if path.stat().st_mtime < (started or 0.0):
            return _read(path)
    return None


def _read(path: Path) -> str | None:
    try:
        return read_whole(path, MAX_WORKLOAD_BYTES, follow_link=True).decode()
    except (OSError, ValueError):
        return None


GRACE_S = 60.0
"""Default time for which a part trains on without its head, in seconds."""
MAX_GRACE_S = 3600.0
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which ranks of which run train here."""

    head: str
    """The name of the machine that has the run."""
    run: str
    """The id of the run there."""
    assignments: tuple[RankAssignment, ...]
    grace_s: float = GRACE_S

    def __post_init__(self) -> None:
        for name in ("head", "run"):
            if not getattr(self, name).isprintable():
                raise ValueError(name)
        if not 0 <= self.grace_s <= MAX_GRACE_S:
            raise ValueError("grace_s")
        if not self.assignments:
            raise ValueError("assignments")


def write_part(run_dir: Path, part: Part) -> None:
    """Write `part.json`, and make the file that is locked. Raises `OSError`."""
    os.close(open_to_append(run_dir / paths.KEPT_FILE))
    write_whole(run_dir / paths.PART_FILE, json.dumps(encode(part), indent=1) + "\n")


def read_part(run_dir: Path) -> Part | None:
    """Return which ranks train in this run directory; None for a run that is no part. Raises `ValueError`."""
    try:
        return decode(Part, files.read_json(run_dir / paths.PART_FILE, MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from error
