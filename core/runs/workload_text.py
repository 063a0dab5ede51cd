"""The text of the recipe or script that a run trains, kept in its folder: the user's file changes between runs."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from core.schema.files import read_whole, write_whole
from core.schema.paths import WORKLOAD_FILE

if TYPE_CHECKING:
    from core.schema.spec import RunSpec

MAX_BYTES = 1024 * 1024
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
        return read_whole(run_dir / WORKLOAD_FILE, MAX_BYTES).decode()
    path = None if foreign or started is None else workload_file(spec)
    if path is None:
        return None
    with contextlib.suppress(OSError):
        if path.stat().st_mtime < (started or 0.0):
            return _read(path)
    return None


def _read(path: Path) -> str | None:
    try:
        return read_whole(path, MAX_BYTES, follow_link=True).decode()
    except (OSError, ValueError):
        return None
