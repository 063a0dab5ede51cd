"""Pythons for tests: temporary environments, with packages that must never be imported."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.pythons.discovery import find_pythons
from core.pythons.python_info import ProbeCache, PythonInfo, PythonProbe, parse_info
from tests.support.waiting import PATIENCE_S

VERSION = ".".join(map(str, sys.version_info[:3]))
RUINED = "raise SystemExit('this package must not be imported')\n"


def make_environment(folder: Path) -> Path:
    """Make a virtual environment without packages and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def packages_of(python: Path) -> Path:
    """Return the folder of an environment's packages."""
    return next((python.parent.parent / "lib").glob("python3*")) / "site-packages"


def install(python: Path, name: str, version: str | None = None, **files: str) -> Path:
    """A package that cannot be imported, with these files (`version_py="..."` is `version.py`); returns its folder."""
    folder = packages_of(python) / name
    folder.mkdir()
    (folder / "__init__.py").write_text(RUINED, encoding="utf-8")
    for each, text in files.items():
        path = folder / each.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if version:
        metadata = packages_of(python) / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
        )
    return folder


def count_starts(python: Path, file: Path) -> None:
    """Have an environment's interpreter append a line to a file whenever it starts."""
    # Not by a module `sitecustomize`: Debian's Python has one, which hides that of an environment.
    line = f"open({str(file)!r}, 'a').write('started\\n')\n"
    (packages_of(python) / "counted.py").write_text(line, encoding="utf-8")
    (packages_of(python) / "counted.pth").write_text("import counted\n", encoding="utf-8")


def write_program(path: Path, text: str, *, mode: int = 0o755) -> Path:
    """Write a file that is executable or not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def copy_of_python(path: Path) -> Path:
    """Make a link that looks like an installed interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.realpath(sys.executable))
    return path


def other_versions() -> Iterator[tuple[tuple[int, int], str]]:
    """Return the Pythons of pyenv on this machine by version."""
    for found in find_pythons():
        version = Path(found.path).parent.parent.name.split(".")
        if found.place == "pyenv" and len(version) == 3 and all(map(str.isdecimal, version)):
            yield (int(version[0]), int(version[1])), found.path


@functools.cache
def has_version(version: tuple[int, int]) -> bool:
    """Return whether pyenv has a Python of this version here."""
    return version in dict(other_versions())


def of_version(major: int, minor: int) -> str:
    """Return an interpreter of another version. Skip the test if this machine has none."""
    found = dict(other_versions()).get((major, minor))
    if found is None:
        pytest.skip(f"this machine has no Python {major}.{minor} from pyenv")
    return found


def ask(path: str, *, timeout_s: float = PATIENCE_S, remembered: ProbeCache | None = None) -> PythonInfo:
    """Return the facts of a Python, from the cache if one is given. Raise ValueError if it does not answer."""
    answer = remembered.get(path) if remembered else None
    if answer is None:
        answer = PythonProbe(path, timeout_s=timeout_s).wait()
        if remembered:
            remembered.put(path, answer)
    return parse_info(path, answer)
