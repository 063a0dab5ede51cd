"""What is known of a Python, asked of itself."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.pythons.probe_process import TIMEOUT_S, PythonProbe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.pythons.cache import ProbeCache

MIN_FOR_SCRIPTS = (3, 8)
MIN_FOR_RECIPES = (3, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A framework that is installed."""

    version: str | None
    """None where its metadata do not say."""
    cuda: bool | None
    """Whether this build can use CUDA; None where that is not known, and for Keras, which leaves it to its backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonInfo:
    """A Python, as it told of itself. Of one before 3.8 only the version is known."""

    path: str
    version: tuple[int, int, int]
    prefix: str = ""
    implementation: str = ""
    torch: Package | None = None
    tensorflow: Package | None = None
    keras: Package | None = None
    pip: bool = False
    """Whether packages can be installed with `python -m pip`."""

    @property
    def title(self) -> str:
        """Such as `Python 3.11.7`, or `Python 3.10.14 (pypy)`."""
        other = f" ({self.implementation})" if self.implementation not in {"", "cpython"} else ""
        return f"Python {'.'.join(map(str, self.version))}{other}"

    def too_old(self, least: tuple[int, int] = MIN_FOR_SCRIPTS) -> str | None:
        """A sentence when it is older than what is needed (`MIN_FOR_SCRIPTS`, `MIN_FOR_RECIPES`); None when not."""
        if self.version[:2] >= least:
            return None
        what = "recipes need" if least == MIN_FOR_RECIPES else "scripts need"
        return (
            f"{self.path} is {self.title}, and {what} Python {least[0]}.{least[1]} or later. "
            "Choose another Python; `trainyard pythons` lists those of this machine."
        )


def locate(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The absolute path of the Python that somebody names: a path, an environment's folder, or a command on PATH.

    Links stay as they are: an environment's `bin/python` is one, and is another Python than what it points to.
    Raises `ValueError` with a sentence for a command that is not there. A path is not looked at.
    """
    if "/" not in text and not os.path.isdir(text):  # noqa: PTH112 (the other one raises)
        command = shutil.which(text, path=environment.get("PATH"))
        if command is None:
            raise ValueError(
                f"There is no Python called {text!r} on PATH. Give its path; "
                "`trainyard pythons` lists those of this machine."
            )
        return str(Path(command).absolute())
    path = Path(os.path.expanduser(text)).absolute()  # noqa: PTH111 (raises for a user who is none)
    inside = path / "bin" / "python"
    return str(inside if os.path.exists(inside) else path)  # noqa: PTH110 (likewise)


def ask(path: str, *, timeout_s: float = TIMEOUT_S, remembered: ProbeCache | None = None) -> PythonInfo:
    """Ask a Python about itself, in a subprocess; without one where the answer is remembered.

    Raises `ValueError` with a sentence for one that hangs, crashes, prints rubbish, or is none.
    """
    answer = remembered.get(path) if remembered else None
    if answer is None:
        answer = PythonProbe(path, timeout_s=timeout_s).wait()
        if remembered:
            remembered.put(path, answer)
    return parse_info(path, answer)


def parse_info(path: str, answer: Mapping[str, Any]) -> PythonInfo:
    """An answer, typed."""
    major, minor, micro = answer["version"]
    return PythonInfo(
        path=path,
        version=(major, minor, micro),
        prefix=str(answer.get("prefix", "")),
        implementation=str(answer.get("implementation", "")),
        torch=_package(answer.get("torch")),
        tensorflow=_package(answer.get("tensorflow")),
        keras=_package(answer.get("keras")),
        pip=answer.get("pip") is True,
    )


def _package(told: object) -> Package | None:
    if not isinstance(told, dict):
        return None
    version, cuda = told.get("version"), told.get("cuda")
    return Package(version=version if isinstance(version, str) else None, cuda=cuda if isinstance(cuda, bool) else None)
