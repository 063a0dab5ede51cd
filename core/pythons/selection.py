"""Which Python is meant where none is named."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from core.pythons.facts import locate

if TYPE_CHECKING:
    from pathlib import Path


def for_script(named: str | None, near: Path) -> str:
    """The Python for a script in the folder `near`: the one that was named (`core.pythons.locate`).

    Where none was: that of the environment which is active in the shell (VIRTUAL_ENV, CONDA_PREFIX), if it is; else
    of the one beside the script or in a folder above it (`.venv`, `venv`); else our own. Raises `ValueError` with a
    sentence for a name that no program has. Links are not followed: an environment's Python is a link to another's.
    """
    if named:
        return locate(named)
    active = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    beside = [str(folder / name) for folder in (near, *near.parents) for name in (".venv", "venv")]
    pythons = [f"{environment}/bin/python" for environment in (*active, *beside) if environment]
    return next((python for python in pythons if os.access(python, os.X_OK)), sys.executable)
