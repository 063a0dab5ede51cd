"""What a run was trained with: its Python, the packages there, and the commit of the workload's folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.schema.codec import Limits, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PACKAGES = 1000
MAX_NAME = 200
"""Characters of a name or a version that are kept."""
MAX_PATH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The Python of the workers, as it described itself at the start."""

    version: str
    """`3.12.3`."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions by the name of the installed distribution."""
    trainyard: str = ""
    """The version of Trainyard; the empty string if it was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The state of the Git repository that the workload lies in, at the start."""

    folder: str
    commit: str
    """The empty string for a repository without a commit."""
    branch: str
    """The empty string if no branch was checked out."""
    changed: bool
    """Whether tracked files differed from the commit, or the workload itself was not tracked."""


def read_software(event: Mapping[str, Any]) -> Software:
    """Read the event `software`. Raises `ValueError` when it is damaged."""
    return decode(Software, event, Limits(MAX_NAME, MAX_PACKAGES))


def read_source(event: Mapping[str, Any]) -> Source:
    """Read the event `source`. Raises `ValueError` when it is damaged."""
    return decode(Source, event, Limits(MAX_PATH))
