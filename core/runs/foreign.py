"""Copies of runs on other machines, and what their machine says of them.

A copy is a run directory below `copies_folder()`, which belongs to this user alone. The process ids in its events are
those of the other machine, so whether its supervisor is alive cannot be seen here: the agent there says so, and
`core.hosts.mirror` keeps the answer in the file `THERE` beside the copies. Nothing may be requested of a copy, or
written into it: the run itself is on the other machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from core.errors import RunError
from core.language import tr
from core.schema.codec import Sentence, decode, encode
from core.schema.files import read_json, write_whole
from core.system.folders import cache_folder

COPIES = "hosts"
"""The folder of all copies, in the user's cache folder: a folder for each host, with its runs."""
THERE = ".there.json"
"""The file beside the copies of a host. No run has its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """What the other machine has said of its runs."""

    host: str = ""
    """The name of the host here."""
    folder: str = ""
    """The folder of runs there."""
    cut_since: float | None = None
    """Unix seconds since which there is no connection; None while there is one. What is known then stays as it was."""
    lost: Mapping[str, Sentence] = field(default_factory=dict)
    """By id, how a run was lost: its supervisor is gone, and has recorded no end."""
    stopped: Mapping[str, Sentence] = field(default_factory=dict)
    """By id of a live run, sentences on processes that are stopped (state T)."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """By id, the user to whom a run belongs if that is not the one whom the agent runs as."""


def copies_folder() -> Path:
    return cache_folder() / COPIES


def is_copy(run_dir: Path) -> bool:
    return os.path.dirname(os.path.dirname(os.path.abspath(run_dir))) == os.path.abspath(copies_folder())  # noqa: PTH100, PTH120 (asked at every poll of a run; links are not followed)


def there(run_dir: Path) -> There | None:
    """Return what the machine of a copied run has said; None for a run that is no copy."""
    return read_there(run_dir.parent) if is_copy(run_dir) else None


def refuse(run_dir: Path) -> None:
    """Raise `RunError` for a copy: nothing can be asked of the run through it."""
    found = there(run_dir)
    if found is not None:
        raise RunError(
            tr(
                "{run} is a run of {host}, and this folder has a copy of it. Act on it in the window "
                "(trainyard --host {host}), or there.",
                run=run_dir.name, host=found.host or run_dir.parent.name,
            )
        )


def read_there(root: Path) -> There:
    """Return what is known of the machine whose runs are copied to a folder. A damaged file says nothing."""
    path = f"{root}/{THERE}"
    try:
        status = os.stat(path)  # noqa: PTH116 (asked at every poll of a run)
    except OSError:
        return There()
    return _read(path, status.st_ino, status.st_size, status.st_mtime_ns)


def write_there(root: Path, value: There) -> None:
    """Keep what the other machine has said. Raises `OSError`."""
    write_whole(root / THERE, json.dumps(encode(value)))


@lru_cache(maxsize=16)
def _read(path: str, *version: int) -> There:
    del version  # another one is another file
    try:
        return decode(There, read_json(path, 64 * 1024 * 1024))
    except (OSError, ValueError):
        return There()
