"""Where Pythons are: a row each. Folders are looked at, nothing is started.

What cannot be looked at, such as a folder of another user's, is not there: `os.path` says so where `pathlib` raises.
"""

# ruff: noqa: PTH111, PTH112, PTH113

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MARK = "pyvenv.cfg"
USUAL_NAMES = (".venv", "venv", "env")
SHIMS = "shims"
"""What pyenv, mise and asdf call the folder with a command for each program, which starts the one that is chosen."""
MAX_ENTRIES = 2000
"""Of one folder; in one with more, only the usual names are looked at."""
CONDA_ROOTS = (
    "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "miniconda", "anaconda", ".conda",
    ".local/share/mamba",
)  # fmt: skip
SYSTEM_CONDA_ROOTS = ("/opt/conda", "/opt/miniconda3", "/opt/anaconda3", "/opt/miniforge3")
COMMANDS = ("python3", "python", *(f"python3.{minor}" for minor in range(6, 16)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPaths:
    """Where to look."""

    home: Path
    variables: Mapping[str, str]
    near: Path | None
    """A script, a program's folder or a working folder."""

    def folder(self, variable: str, *otherwise: str) -> Path:
        """The folder that a variable names; else this one below the home folder."""
        named = self.variables.get(variable, "")
        return Path(named) if named else self.home.joinpath(*otherwise)

    def path_folders(self) -> list[Path]:
        """The folders of PATH; what is relative depends on the working folder and is passed over."""
        folders = map(Path, self.variables.get("PATH", "").split(os.pathsep))
        return [folder for folder in folders if folder.is_absolute()]

    def shims_roots(self) -> list[Path]:
        """Where tools such as pyenv keep what the shims on PATH choose from: their roots, known by no variable."""
        return [folder.parent for folder in self.path_folders() if folder.name == SHIMS]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonLocation:
    """A kind of places."""

    id: str
    title: str
    interpreters: Callable[[SearchPaths], Iterator[Path]]


def own(machine: SearchPaths) -> Iterator[Path]:
    """This application's own; those that the environment names for a framework; the one made beside it."""
    yield Path(sys.executable)
    for name in ("PYTORCH", "TENSORFLOW", "KERAS"):
        named = machine.variables.get(f"TRAINYARD_PYTHON_{name}", "").strip()
        if named:
            yield Path(os.path.expanduser(named))
    yield from _environment(Path(f"{sys.prefix}-tensorflow"))


def near(machine: SearchPaths) -> Iterator[Path]:
    """Virtual environments in the folder and its parents."""
    if machine.near is None:
        return
    first = machine.near.absolute()
    for folder in (first, *first.parents):
        yield from _environment(folder)
        for name in USUAL_NAMES:
            yield from _environment(folder / name)
        for inside in _folders(folder):
            yield from _environment(inside)


def active(machine: SearchPaths) -> Iterator[Path]:
    """The virtual environment of the shell, and those that tools keep in one place."""
    if machine.variables.get("VIRTUAL_ENV"):
        yield from _environment(Path(machine.variables["VIRTUAL_ENV"]))
    data = machine.folder("XDG_DATA_HOME", ".local", "share")
    cache = machine.folder("XDG_CACHE_HOME", ".cache")
    workon = machine.folder("WORKON_HOME", ".virtualenvs")
    for root in (workon, data / "virtualenvs", cache / "pypoetry" / "virtualenvs"):
        for folder in _folders(root):
            yield from _environment(folder)


def conda(machine: SearchPaths) -> Iterator[Path]:
    """Environments of conda and mamba: those that they list, and those below the usual roots."""
    for folder in _conda_folders(machine):
        python = folder / "bin" / "python"
        if os.path.isdir(folder / "conda-meta") and _is_there(python):
            yield python


def _conda_folders(machine: SearchPaths) -> Iterator[Path]:
    if machine.variables.get("CONDA_PREFIX"):
        yield Path(machine.variables["CONDA_PREFIX"])
    with contextlib.suppress(OSError, ValueError):
        listed = (machine.home / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
        yield from (Path(line.strip()) for line in listed if line.strip())
    for root in _conda_roots(machine):
        yield root
        yield from _folders(root / "envs")


def _conda_roots(machine: SearchPaths) -> Iterator[Path]:
    for variable in ("CONDA_EXE", "MAMBA_EXE"):
        if machine.variables.get(variable):
            yield Path(machine.variables[variable]).parent.parent
    if machine.variables.get("MAMBA_ROOT_PREFIX"):
        yield Path(machine.variables["MAMBA_ROOT_PREFIX"])
    yield from (machine.home / name for name in CONDA_ROOTS)
    yield from map(Path, SYSTEM_CONDA_ROOTS)


def pyenv(machine: SearchPaths) -> Iterator[Path]:
    """Versions and environments of pyenv: where its variable says, in the home folder, and behind its shims on PATH.

    The shims are looked behind, as a program need not have the variable of the shell, nor its home folder.
    """
    roots = (machine.folder("PYENV_ROOT", ".pyenv"), machine.home / ".pyenv", *machine.shims_roots())
    for root in dict.fromkeys(roots):
        yield from _installed(root / "versions")


def uv(machine: SearchPaths) -> Iterator[Path]:
    """Versions that uv has fetched."""
    data = machine.folder("XDG_DATA_HOME", ".local", "share")
    return _installed(machine.folder("UV_PYTHON_INSTALL_DIR", str(data / "uv" / "python")))


def managed(machine: SearchPaths) -> Iterator[Path]:
    """Versions of mise and of asdf."""
    data = machine.folder("XDG_DATA_HOME", ".local", "share")
    yield from _installed(machine.folder("MISE_DATA_DIR", str(data / "mise")) / "installs" / "python")
    yield from _installed(machine.folder("ASDF_DATA_DIR", ".asdf") / "installs" / "python")
    for root in machine.shims_roots():
        yield from _installed(root / "installs" / "python")


def on_path(machine: SearchPaths) -> Iterator[Path]:
    """Commands. Shims are passed over: which Python they start depends on the folder they are started in."""
    for folder in machine.path_folders():
        if folder.name != SHIMS:
            yield from (folder / name for name in COMMANDS if _is_command(folder / name))


PLACES = (
    PythonLocation(id="own", title="this application's", interpreters=own),
    PythonLocation(id="near", title="environment near the script", interpreters=near),
    PythonLocation(id="environment", title="virtual environment", interpreters=active),
    PythonLocation(id="conda", title="conda", interpreters=conda),
    PythonLocation(id="pyenv", title="pyenv", interpreters=pyenv),
    PythonLocation(id="uv", title="uv", interpreters=uv),
    PythonLocation(id="managed", title="mise or asdf", interpreters=managed),
    PythonLocation(id="path", title="on PATH", interpreters=on_path),
)
"""In the order in which they are shown; one that is found in several places is shown in the first."""


def _installed(folder: Path) -> Iterator[Path]:
    """The interpreter of each version in a folder."""
    for version in _folders(folder):
        for name in ("python", "python3"):
            if _is_there(version / "bin" / name):
                yield version / "bin" / name
                break


def _environment(folder: Path) -> Iterator[Path]:
    """The interpreter of a virtual environment, also where it is a link to one that is gone."""
    python = folder / "bin" / "python"
    if os.path.isfile(folder / MARK) and _is_there(python):
        yield python


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, by name; none where it cannot be looked into, or is very full."""
    try:
        with os.scandir(folder) as entries:
            found = list(islice(entries, MAX_ENTRIES + 1))
    except (OSError, ValueError):
        return []
    return sorted(Path(each.path) for each in found if os.path.isdir(each)) if len(found) <= MAX_ENTRIES else []


def _is_command(path: Path) -> bool:
    """Whether this is a program that is not a link to a shim."""
    return os.path.isfile(path) and Path(os.path.realpath(path)).parent.name != SHIMS


def _is_there(path: Path) -> bool:
    """Whether there is something by this name, be it a link to nowhere."""
    return os.path.lexists(path)
