"""Write files whole, and word why a path could not be written.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The error numbers of a write to a full disk, or beyond a quota."""


def write_whole(path: Path, text: str) -> None:
    """Replace a file by way of a temporary one, so that readers see the old text or the new. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def disk_full(path: Path, remedy: str) -> str:
    """Return the sentences for a disk that is full. `remedy`: a sentence on what to do."""
    return f"The disk is full: {path} could not be written. {remedy}"


def not_written(path: Path, error: OSError, *, if_full: str, otherwise: str) -> str:
    """Return why a path could not be written, with what to do: `if_full` when the disk is full, else `otherwise`."""
    if error.errno in FULL:
        return disk_full(path, if_full)
    return f"{path} could not be written: {error.strerror}. {otherwise}"
