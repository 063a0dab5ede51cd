"""A person's choices, before they are checked: what the window's form and the command line both produce."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.schema.settings import SettingValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeChoices:
    """What a person chose. None leaves a choice to its documented default."""

    recipe: str
    """A built-in name or a file."""
    devices: tuple[str, ...]
    """Ids, or labels such as `gpu:0`, in the order of ranks."""
    framework: str = "pytorch"
    strategy: str | None = None
    name: str | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    training: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Training` that differ from their defaults."""
    checkpoints: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Checkpoints` that differ from their defaults."""
    release: Mapping[str, object] = field(default_factory=dict)
    """Fields of `ReleaseWatch` that differ from their defaults."""
    cuda_ids: str = "uuid"
    working_dir: str | None = None
    """None for the folder that this process is in."""
    python: str | None = None
    """Another than the framework's own (`core.catalog.interpreters`): a path, or a command on PATH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetChoice:
    """A setup that was kept, on other devices or under another name where these are given."""

    setup: str
    """Its name or its file."""
    devices: tuple[str, ...] = ()
    name: str | None = None


INTERRUPT_S = 30.0
"""A script that is stopped is given so long after SIGINT: programs save on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptChoices:
    """What a person chose to start in place of a recipe. None leaves a choice to its documented default."""

    script: str = ""
    """A file, or a folder with a `__main__.py`."""
    module: str = ""
    """In its place: `python -m NAME`."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str | None = None
    launch: str | None = None
    """`one` or `per-device`; None for what the script's source tells."""
    python: str | None = None
    """None for the environment that is active, or the one beside the script, or else this application's own."""
    expression: str = ""
    devices: tuple[str, ...]
    name: str | None = None
    release: Mapping[str, object] = field(default_factory=dict)
    cuda_ids: str = "uuid"
