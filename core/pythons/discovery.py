"""The Pythons of this machine, each once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.pythons.places import MARK, PLACES, SearchPaths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An interpreter that lies somewhere; whether it is a Python is not known yet."""

    path: str
    place: str
    """The id of a row of `core.pythons.places`, or `chosen`."""
    title: str
    """The place, for people."""


def find(near: Path | None = None, *, variables: Mapping[str, str] = os.environ) -> Iterator[Found]:
    """Look for them, near a script or a folder first. Cheap: no process is started.

    A virtual environment is another Python than the one that its `bin/python` links to; otherwise what is linked to is
    one.
    """
    home = Path(variables.get("HOME") or Path.home())
    machine = SearchPaths(home=home, variables=variables, near=near)
    known: set[str] = set()
    for place in PLACES:
        for python in place.interpreters(machine):
            identity = identity_of(python)
            if identity not in known:
                known.add(identity)
                yield Found(path=str(python), place=place.id, title=place.title)


def identity_of(python: Path) -> str:
    """What is the same for two paths to one Python: the folder of a virtual environment, or the real interpreter."""
    environment = python.parent.parent
    return os.path.realpath(environment if os.path.isfile(environment / MARK) else python)  # noqa: PTH113
