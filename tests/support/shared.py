"""Folders that several tests read and none changes."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_root(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all pytest-xdist processes of this session have."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` fills: in the first of all pytest-xdist processes that needs it; the others wait."""
    folder = shared_root(factory) / name
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = Path(tempfile.mkdtemp(prefix=name, dir=folder.parent))
            make(unfinished)
            unfinished.rename(folder)
    return folder
