"""Build wheels whose only top-level package is `trainyard`, with setuptools.

In the repository, `core`, `gui` and `resources` are at the root, beside `trainyard.py`. In a wheel they are folders of
the package `trainyard`, and `trainyard.py` is its `__init__.py` and its `__main__.py`: beside packages of the user with
names like `core`, there are none of ours. Only processes of Trainyard search that folder (`core.system.own_start`).
"""
# ruff: noqa: INP001 - a script, in no package

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the rest: source distributions and editable installs

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("core", "gui", "resources")
DOCUMENTS = ("pyproject.toml", "README.md", "LICENSE")


def prepare_metadata_for_build_wheel(folder: str, settings: dict[str, str] | None = None) -> str:
    """Write the metadata of the wheel into a folder, and return their name."""
    with _in_one_package():
        name: str = build_meta.prepare_metadata_for_build_wheel(folder, settings)
        return name


def build_wheel(folder: str, settings: dict[str, str] | None = None, metadata: str | None = None) -> str:
    """Write the wheel into a folder, and return its name."""
    del metadata  # made again, which is a matter of milliseconds
    with _in_one_package():
        name: str = build_meta.build_wheel(folder, settings)
        return name


@contextlib.contextmanager
def _in_one_package() -> Iterator[None]:
    """Work in a copy of the repository in which all is in one package."""
    with tempfile.TemporaryDirectory() as copy:
        package = Path(copy) / "trainyard"
        for name in PACKAGES:
            shutil.copytree(name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("__init__.py", "__main__.py"):
            shutil.copyfile("trainyard.py", package / name)
        for name in DOCUMENTS:
            shutil.copy(name, copy)
        with contextlib.chdir(copy):
            yield
