"""The user's choices before they are checked, from the window's form or the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.schema.settings import SettingValue  # noqa: TC001 (the codec reads annotations)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeChoices:
    """Choices for a recipe. None stands for the documented default."""

    recipe: str
    """A built-in name or a file."""
    devices: tuple[str, ...]
    """Ids, or short names such as `gpu:0`, in the order of ranks."""
    framework: str = "pytorch"
    strategy: str | None = None
    name: str | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    training: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Training` that differ from their defaults."""
    checkpoints: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Checkpoints` that differ from their defaults."""
    stop: Mapping[str, object] = field(default_factory=dict)
    """Fields of `StopTimeouts` that differ from their defaults."""
    release: Mapping[str, object] = field(default_factory=dict)
    """Fields of `ReleaseWatch` that differ from their defaults."""
    cuda_ids: str = "uuid"
    allow_open_ports: bool = False
    working_dir: str | None = None
    """None for the folder that this process is in."""
    python: str | None = None
    """A path, or a command on PATH; None for the framework's usual one (`core.catalog.frameworks`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetChoice:
    """A preset, with other devices or another name where they are given."""

    preset: str
    """Its name or its file."""
    devices: tuple[str, ...] = ()
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptChoices:
    """Choices for a script. None stands for the documented default."""

    script: str = ""
    """A file, or a folder with a `__main__.py`."""
    module: str = ""
    """Instead of a script: the module for `python -m`."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: tuple[str, ...] = ()
    """Names of variables whose values are taken from the environment at each start, and not stored."""
    working_dir: str | None = None
    """None for the folder that this process is in."""
    launch: str | None = None
    """`one` or `per-device`; None for the mode that the script's source proposes."""
    python: str | None = None
    """None for the active environment, one next to the script, or Trainyard's own (`core.pythons.discovery`)."""
    expression: str = ""
    """A regular expression that reads metrics from the log."""
    rules: str = ""
    """The file of rules for the log; empty for the one beside the script, if there is one, and `none` for no rules."""
    devices: tuple[str, ...]
    name: str | None = None
    stop: Mapping[str, object] = field(default_factory=dict)
    """Fields of `StopTimeouts` that differ from their defaults for scripts."""
    release: Mapping[str, object] = field(default_factory=dict)
    """Fields of `ReleaseWatch` that differ from their defaults."""
    cuda_ids: str = "uuid"
