"""Whether runs can be kept in a folder."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
