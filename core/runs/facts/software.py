"""What a run was trained with: its Python, the packages there, and the commit of the workload's folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PACKAGES = 1000
MAX_NAME = 200
"""Characters of a name or a version that are kept."""


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
    """Read the event `software`. Raises `KeyError` or `TypeError` when it is damaged."""
    packages = event.get("packages") or {}
    if not isinstance(packages, dict):
        raise TypeError(event)
    kept = list(packages.items())[:MAX_PACKAGES]
    return Software(
        version=_text(event["version"]),
        packages={_text(name): _text(version) for name, version in kept},
        trainyard=_text(event.get("trainyard") or ""),
    )


def read_source(event: Mapping[str, Any]) -> Source:
    """Read the event `source`. Raises `KeyError` or `TypeError` when it is damaged."""
    return Source(
        folder=str(event["folder"]), commit=_text(event.get("commit") or ""), branch=_text(event.get("branch") or ""),
        changed=event.get("changed") is True,
    )  # fmt: skip


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value[:MAX_NAME]
