"""Find the Pythons of this machine, the one that a name means, and the one for a script; ask all of them.

They are found without starting any. A folder that cannot be read, such as another user's, counts as missing: `os.path`
reports that where `pathlib` raises. `PythonSearch` asks them in the background of a caller that polls: with processes,
without threads or waiting.
"""

# ruff: noqa: PTH111, PTH112, PTH113

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from core.language import tr, tr_noop
from core.pythons.python_info import (
    POLL_S,
    TIMEOUT_S,
    ProbeCache,
    PythonInfo,
    PythonProbe,
    default_file,
    parse_info,
)
from core.system.processes import user_name

MARK = "pyvenv.cfg"
"""The file that every virtual environment contains."""
USUAL_NAMES = (".venv", "venv", "env")
SHIMS = "shims"
"""The folder of pyenv, mise and asdf with scripts that start the version chosen for the working folder."""
MAX_ENTRIES = 2000
"""Entries of a folder; in a larger one only the usual names are tried."""
CONDA_ROOTS = (
    "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "miniconda", "anaconda", ".conda",
    ".local/share/mamba",
)
SYSTEM_CONDA_ROOTS = ("/opt/conda", "/opt/miniconda3", "/opt/anaconda3", "/opt/miniforge3")
COMMANDS = ("python3", "python", *(f"python3.{minor}" for minor in range(6, 16)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that may be a Python; it was not started yet."""

    path: str
    place: str
    """The id of a row of `LOCATIONS`, or `chosen`."""
    title: str
    """The place in words for users."""


def find_pythons(near: Path | None = None, *, variables: Mapping[str, str] = os.environ) -> Iterator[Found]:
    """Yield the Pythons of this machine, each once; `near` is a script or a folder to search first.

    A virtual environment is another Python than the one that its `bin/python` links to; other links are followed.
    """
    paths = SearchPaths(home=Path(variables.get("HOME") or Path.home()), variables=variables, near=near)
    known: set[str] = set()
    for place, title, interpreters in LOCATIONS:
        for python in interpreters(paths):
            identity = identity_of(python)
            if identity not in known:
                known.add(identity)
                yield Found(path=str(python), place=place, title=title)


def identity_of(python: Path) -> str:
    """Return what all paths of one Python share: the folder of a virtual environment, or the real interpreter."""
    environment = python.parent.parent
    return os.path.realpath(environment if os.path.isfile(environment / MARK) else python)


def locate_python(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the absolute path of a Python, named by a path, an environment's folder, or a command on PATH.

    Links are not followed: an environment's `bin/python` is one, and is another Python than its target. A path need
    not exist. Raises `ValueError` with a sentence for an unknown command.
    """
    if "/" not in text and not os.path.isdir(text):
        command = shutil.which(text, path=environment.get("PATH"))
        if command is None:
            raise ValueError(
                tr("There is no Python called {text!r} on PATH. Give its path; "
                   "`trainyard pythons` lists those of this machine.", text=text)
            )
        return str(Path(command).absolute())
    path = Path(os.path.expanduser(text)).absolute()
    inside = path / "bin" / "python"
    return str(inside if os.path.exists(inside) else path)  # noqa: PTH110 (pathlib raises)


def python_for_script(named: str | None, near: Path) -> str:
    """Return the Python for a script in the folder `near`.

    It is the one that was named (see `locate_python`); else that of the shell's active environment (VIRTUAL_ENV,
    CONDA_PREFIX); else that of an environment beside the script or in a folder above it (`.venv`, `venv`); else our
    own. Raises `ValueError` with a sentence for an unknown name, and for an environment of another user.
    """
    if named:
        return locate_python(named)
    active = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    beside = [folder / name for folder in (near, *near.parents) for name in (".venv", "venv")]
    pythons = [f"{environment}/bin/python" for environment in (*active, *beside) if environment]
    python = next((each for each in pythons if os.access(each, os.X_OK)), sys.executable)
    environment = Path(python).parent.parent
    if environment in beside and (owner := _other_owner(environment)):
        raise ValueError(
            tr("{environment} belongs to {owner}, whose Python is not started without being chosen. If you trust it, "
               "choose it with --python {python}; otherwise choose another.",
               environment=environment, owner=owner, python=python)
        )
    return python


# -- the places ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPaths:
    """Where to search."""

    home: Path
    variables: Mapping[str, str]
    near: Path | None
    """A script, a program's folder or a working folder."""

    def folder(self, variable: str, *default: str) -> Path:
        """Return the folder that a variable names, or the default below the home folder."""
        named = self.variables.get(variable, "")
        return Path(named) if named else self.home.joinpath(*default)

    def path_folders(self) -> list[Path]:
        """Return the absolute folders of PATH; relative ones depend on the working folder."""
        folders = map(Path, self.variables.get("PATH", "").split(os.pathsep))
        return [folder for folder in folders if folder.is_absolute()]

    def shims_roots(self) -> list[Path]:
        """Return the root folders of tools such as pyenv whose shims are on PATH."""
        return [folder.parent for folder in self.path_folders() if folder.name == SHIMS]


def own(paths: SearchPaths) -> Iterator[Path]:
    """Yield this application's own, those that variables name for a framework, and the one made for TensorFlow."""
    yield Path(sys.executable)
    for name in ("PYTORCH", "TENSORFLOW", "KERAS"):
        named = paths.variables.get(f"TRAINYARD_PYTHON_{name}", "").strip()
        if named:
            yield Path(os.path.expanduser(named))
    yield from _environment(Path(f"{sys.prefix}-tensorflow"))


def near(paths: SearchPaths) -> Iterator[Path]:
    """Yield virtual environments in the folder and its parents, without those of other users.

    What is found is started to ask for its version. A folder above the script may be writable for others, and
    `/home` has the homes of all users, so that another user could otherwise place a program there.
    """
    if paths.near is None:
        return
    first = paths.near.absolute()
    for folder in (first, *first.parents):
        inside = [folder, *(folder / name for name in USUAL_NAMES), *_folders(folder)]
        for each in inside:
            yield from (python for python in _environment(each) if not _other_owner(each))


def active(paths: SearchPaths) -> Iterator[Path]:
    """Yield the active virtual environment, and those that tools keep in one place."""
    if paths.variables.get("VIRTUAL_ENV"):
        yield from _environment(Path(paths.variables["VIRTUAL_ENV"]))
    data = paths.folder("XDG_DATA_HOME", ".local", "share")
    cache = paths.folder("XDG_CACHE_HOME", ".cache")
    workon = paths.folder("WORKON_HOME", ".virtualenvs")
    for root in (workon, data / "virtualenvs", cache / "pypoetry" / "virtualenvs"):
        for folder in _folders(root):
            yield from _environment(folder)


def conda(paths: SearchPaths) -> Iterator[Path]:
    """Yield environments of conda and mamba: those that they list, and those below the usual roots."""
    for folder in _conda_folders(paths):
        python = folder / "bin" / "python"
        if os.path.isdir(folder / "conda-meta") and os.path.lexists(python):
            yield python


def _conda_folders(paths: SearchPaths) -> Iterator[Path]:
    if paths.variables.get("CONDA_PREFIX"):
        yield Path(paths.variables["CONDA_PREFIX"])
    with contextlib.suppress(OSError, ValueError):
        listed = (paths.home / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
        yield from (Path(line.strip()) for line in listed if line.strip())
    programs = [paths.variables[name] for name in ("CONDA_EXE", "MAMBA_EXE") if paths.variables.get(name)]
    roots = [Path(program).parent.parent for program in programs]
    if paths.variables.get("MAMBA_ROOT_PREFIX"):
        roots.append(Path(paths.variables["MAMBA_ROOT_PREFIX"]))
    for root in (*roots, *(paths.home / name for name in CONDA_ROOTS), *map(Path, SYSTEM_CONDA_ROOTS)):
        yield root
        yield from _folders(root / "envs")


def pyenv(paths: SearchPaths) -> Iterator[Path]:
    """Yield versions and environments of pyenv: by its variable, in the home folder, and by its shims on PATH.

    The shims matter because a program need not have the shell's variable, nor its home folder.
    """
    roots = (paths.folder("PYENV_ROOT", ".pyenv"), paths.home / ".pyenv", *paths.shims_roots())
    for root in dict.fromkeys(roots):
        yield from _installed(root / "versions")


def uv(paths: SearchPaths) -> Iterator[Path]:
    """Return the versions that uv has installed."""
    data = paths.folder("XDG_DATA_HOME", ".local", "share")
    return _installed(paths.folder("UV_PYTHON_INSTALL_DIR", str(data / "uv" / "python")))


def managed(paths: SearchPaths) -> Iterator[Path]:
    """Yield the versions of mise and asdf."""
    data = paths.folder("XDG_DATA_HOME", ".local", "share")
    yield from _installed(paths.folder("MISE_DATA_DIR", str(data / "mise")) / "installs" / "python")
    yield from _installed(paths.folder("ASDF_DATA_DIR", ".asdf") / "installs" / "python")
    for root in paths.shims_roots():
        yield from _installed(root / "installs" / "python")


def on_path(paths: SearchPaths) -> Iterator[Path]:
    """Yield commands on PATH without shims: the Python that a shim starts depends on its working folder."""
    for folder in paths.path_folders():
        if folder.name != SHIMS:
            for path in (folder / name for name in COMMANDS):
                if os.path.isfile(path) and Path(os.path.realpath(path)).parent.name != SHIMS:  # no link to a shim
                    yield path


LOCATIONS: tuple[tuple[str, str, Callable[[SearchPaths], Iterator[Path]]], ...] = (
    ("own", tr_noop("this application's"), own),
    ("near", tr_noop("environment near the script"), near),
    ("environment", tr_noop("virtual environment"), active),
    ("conda", "conda", conda),
    ("pyenv", "pyenv", pyenv),
    ("uv", "uv", uv),
    ("managed", "mise or asdf", managed),
    ("path", tr_noop("on PATH"), on_path),
)
"""Id, title and interpreters of each kind of place, in the order in which they are shown; a Python that is found in
several places is shown in the first."""


def _installed(folder: Path) -> Iterator[Path]:
    """Yield the interpreter of each version in a folder."""
    for version in _folders(folder):
        for name in ("python", "python3"):
            if os.path.lexists(version / "bin" / name):
                yield version / "bin" / name
                break


def _environment(folder: Path) -> Iterator[Path]:
    """Yield the interpreter of a virtual environment, even if it is a broken link."""
    python = folder / "bin" / "python"
    if os.path.isfile(folder / MARK) and os.path.lexists(python):
        yield python


def _other_owner(environment: Path) -> str | None:
    """Return the user to whom an environment, or a part of it, belongs; None if that is this user or root.

    What a link names may belong to anyone, if the link does not: this user or root chose it.
    """
    paths = (environment, environment / MARK, environment / "bin", environment / "bin" / "python")
    for path in paths[:1] if os.path.islink(environment) else paths:  # noqa: PTH114 (pathlib raises)
        with contextlib.suppress(OSError):
            if (uid := os.lstat(path).st_uid) not in {0, os.geteuid()}:
                return user_name(uid)
    return None


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, by name; none if it cannot be read or has more than `MAX_ENTRIES`."""
    try:
        with os.scandir(folder) as entries:
            found = list(islice(entries, MAX_ENTRIES + 1))
    except (OSError, ValueError):
        return []
    return sorted(Path(each.path) for each in found if os.path.isdir(each)) if len(found) <= MAX_ENTRIES else []


MAX_PROBES = 2
"""Number of Pythons that are asked at the same time: training may run on the same machine."""
FIND_S = 0.005
"""Seconds of searching the file system per poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPython:
    """A Python and what is known about it. With neither `info` nor `problem` it was not asked yet."""

    found: Found
    info: PythonInfo | None = None
    problem: str = ""
    """A sentence why it cannot be used, or the empty string."""


class PythonSearch:
    """Finds and asks. `close` it in the end: it leaves no process."""

    def __init__(
        self,
        cache: ProbeCache | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        self._cache = cache or ProbeCache(default_file())
        self._timeout_s, self._variables = timeout_s, variables
        self._finding: Iterator[Found] | None = None
        self._entries: dict[str, FoundPython] = {}
        """By identity, in the order in which they were found."""
        self._waiting: list[str] = []
        self._probes: dict[str, PythonProbe] = {}

    @property
    def done(self) -> bool:
        """Whether every Python is found and asked."""
        return self._finding is None and not self._waiting and not self._probes

    def start(self, near: Path | None = None) -> None:
        """Start, or restart near another folder; answers so far are kept."""
        self._stop()
        self._entries = {}
        self._finding = find_pythons(near, variables=self._variables)

    def add(self, path: str) -> None:
        """Also ask the Python at a path that the user chose (see `discovery.locate_python`)."""
        self._add(Found(path=path, place="chosen", title="chosen"))

    def poll(self) -> list[FoundPython]:
        """Return all that is known by now, in the order of the places. Never waits."""
        self._find()
        for name, probe in list(self._probes.items()):
            found = self._entries[name].found
            try:
                answer = probe.poll()
            except ValueError as error:
                self._entries[name] = FoundPython(found=found, problem=str(error))
            else:
                if answer is None:
                    continue
                self._cache.put(found.path, answer)
                self._entries[name] = _entry(found, answer)
            del self._probes[name]
        while self._waiting and len(self._probes) < MAX_PROBES:
            name = self._waiting.pop(0)
            found = self._entries[name].found
            try:
                self._probes[name] = PythonProbe(found.path, timeout_s=self._timeout_s)
            except ValueError as error:
                self._entries[name] = FoundPython(found=found, problem=str(error))
        if self.done:
            self._cache.save()
        return list(self._entries.values())

    def wait(self) -> list[FoundPython]:
        """Return all that is known once every Python is asked, and close. Takes seconds."""
        try:
            while not (found := self.poll(), self.done)[1]:
                time.sleep(POLL_S)
        finally:
            self.close()
        return found

    def close(self) -> None:
        """End the probes under way, and save the answers."""
        self._stop()
        self._cache.save()

    def _stop(self) -> None:
        self._finding, self._waiting = None, []
        for probe in self._probes.values():
            probe.close()
        self._probes = {}

    def _find(self) -> None:
        until = time.monotonic() + FIND_S
        while self._finding is not None and time.monotonic() < until:
            found = next(self._finding, None)
            if found is None:
                self._finding = None
            else:
                self._add(found)

    def _add(self, found: Found) -> None:
        name = identity_of(Path(found.path))
        if name in self._entries:
            return
        answer = self._cache.get(found.path)
        self._entries[name] = _entry(found, answer) if answer else FoundPython(found=found)
        if answer is None:
            self._waiting.append(name)


def _entry(found: Found, answer: Mapping[str, Any]) -> FoundPython:
    info = parse_info(found.path, answer)
    return FoundPython(found=found, info=info, problem=info.too_old() or "")
