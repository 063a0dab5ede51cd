"""The folders in a run's own for the sockets of its data-loader workers (`core.worker.pytorch._sockets`)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SOCKETS = "pymp-*"


def remove_sockets(run_dir: Path) -> None:
    """Remove what data-loader workers that were killed could not: nobody of the run is left who uses it."""
    for folder in run_dir.glob(SOCKETS):
        shutil.rmtree(folder, ignore_errors=True)
