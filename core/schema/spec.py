"""RunSpec: what was asked of a run. Frozen dataclasses, JSON in and out, each checks its own fields.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import json
import os
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from .paths import SPEC_FILE
from .settings import (
    CUDA_IDS,
    Checkpoints,
    Recipe,
    ReleaseWatch,
    Script,
    StopTimeouts,
    Training,
    check_one_of,
    check_text,
)

if TYPE_CHECKING:
    from pathlib import Path


VERSION = 1
SCRIPT = "script"
"""The framework of runs that start a program of the user's own: it brings its framework itself."""
OF_OUR_LOOPS = frozenset({"recipe", "training", "checkpoints"})
"""The parts of a spec that a script has no use for."""
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """All that a run needs to be run again."""

    name: str
    framework: str
    strategy: str
    recipe: Recipe | None = None
    script: Script | None = None
    """In its place."""
    devices: tuple[str, ...]
    """Device ids in the order of ranks: `cpu:0`, or a GPU's full UUID."""
    training: Training = field(default_factory=Training)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    ladder: StopTimeouts = field(default_factory=StopTimeouts)
    release: ReleaseWatch = field(default_factory=ReleaseWatch)
    cuda_ids: str = "uuid"
    """How CUDA_VISIBLE_DEVICES names the GPUs: `uuid`, or `integer` for libraries that read only numbers there."""
    python: str
    """The interpreter of the workers."""
    working_dir: str
    """Where the workers run, so that a recipe's relative paths mean what they meant to who started it."""

    def __post_init__(self) -> None:
        for name in ("name", "framework", "strategy", "python", "working_dir"):
            check_text(name.replace("_", " "), getattr(self, name))
        for device in self.devices:
            check_text("device id", device)
        check_one_of("The way of naming GPUs to CUDA", self.cuda_ids, CUDA_IDS)
        if (self.recipe is None) == (self.script is None):
            raise ValueError("A run trains either a recipe or a script. Give one of them.")
        if (self.framework == SCRIPT) != (self.script is not None):
            raise ValueError(f"A recipe has a framework, and a script has {SCRIPT!r} in its place.")

    @property
    def own_recipe(self) -> Recipe:
        """The recipe of a run that trains one: its workers have no other run."""
        assert self.recipe is not None
        return self.recipe

    def to_json(self) -> dict[str, Any]:
        """The content of `spec.json`; a script's has no settings of our own loops, which it knows nothing of."""
        parts = asdict(self)
        told = {name: value for name, value in parts.items() if self.script is None or name not in OF_OUR_LOOPS}
        return {"version": VERSION, **told, "devices": list(self.devices)}

    @classmethod
    def from_json(cls, data: object) -> RunSpec:
        """Raises `ValueError` with a sentence when `data` is no spec, or one of a newer version."""
        if not isinstance(data, dict):
            raise ValueError("It is not a JSON object.")  # noqa: TRY004 (the content is wrong, not the caller)
        version = data.get("version")
        if isinstance(version, int) and version > VERSION:
            raise ValueError(
                f"It was written by a newer Trainyard (version {version}; this one reads up to {VERSION}). "
                "Update Trainyard to open it."
            )
        parts = {
            "recipe": Recipe, "script": Script, "training": Training, "checkpoints": Checkpoints,
            "ladder": StopTimeouts,
            "release": ReleaseWatch,
        }  # fmt: skip
        data = {
            name: _part(parts[name], value) if name in parts and value is not None else value
            for name, value in data.items()
        }
        if isinstance(data.get("devices"), list):
            data["devices"] = tuple(data["devices"])
        return _part(cls, data)


def read_spec(run_dir: Path) -> RunSpec:
    """The spec of a run directory. Raises `ValueError` with a sentence that names the file."""
    path = run_dir / SPEC_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return RunSpec.from_json(data)
    except OSError as error:
        raise ValueError(f"{path} could not be read: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"{path} is not a spec that can be used. {error}") from error


def write_spec(run_dir: Path, spec: RunSpec) -> None:
    """Write `spec.json` whole: under a temporary name, then renamed."""
    path = run_dir / SPEC_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(spec.to_json(), indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, path)  # noqa: PTH105 (the atomic call, by its usual name)


def _part(kind: type[Part], data: object) -> Part:
    """Build a dataclass from JSON, passing over fields it does not know."""
    if isinstance(data, kind):
        return data
    if not isinstance(data, dict):
        raise ValueError(f"Its {kind.__name__.lower()} is {data!r} where an object was expected.")  # noqa: TRY004
    if isinstance(data.get("arguments"), list):
        data = {**data, "arguments": tuple(data["arguments"])}
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]  # always one of our dataclasses
    needed = {item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING}  # type: ignore[arg-type]
    if missing := sorted(needed - data.keys()):
        raise ValueError(f"It is not complete: {', '.join(missing)} of its {kind.__name__.lower()} is not there.")
    return kind(**{name: value for name, value in data.items() if name in known})
