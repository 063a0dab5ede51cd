"""What was asked of a run: frozen dataclasses that check their fields, to JSON and back.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import json
import reprlib
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..language import tr, tr_noop
from .files import read_json, write_whole
from .paths import NAME_FILE, RULES_FILE, SPEC_FILE
from .settings import (
    CUDA_IDS,
    Checkpoints,
    Recipe,
    ReleaseWatch,
    Script,
    StopTimeouts,
    Training,
    check_flag,
    check_one_of,
    check_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


VERSION = 1
MAX_NAME = 200
"""Maximum characters of a run's name."""
MAX_NAME_BYTES = 4096
MAX_RULES = 200
MAX_RULES_BYTES = 1 << 18
SCRIPT = "script"
"""The framework of a run that starts a user's program: the program loads its framework itself."""
RECIPE_PARTS = frozenset({"recipe", "training", "checkpoints", "allow_open_ports"})
"""The parts of a spec that only recipes use."""
UNSAID = (("imported", ""), ("time_limit_s", None), ("recorded", False))
"""Fields, with the value that is left out."""
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """All that is needed to start a run, or to start it again."""

    name: str
    framework: str
    strategy: str
    recipe: Recipe | None = None
    script: Script | None = None
    """The program to start in place of a recipe."""
    devices: tuple[str, ...]
    """Device ids in the order of ranks: `cpu:0`, or a GPU's full UUID."""
    training: Training = field(default_factory=Training)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    stop_timeouts: StopTimeouts = field(default_factory=StopTimeouts)
    release: ReleaseWatch = field(default_factory=ReleaseWatch)
    cuda_ids: str = "uuid"
    """How CUDA_VISIBLE_DEVICES names the GPUs: `uuid`, or `integer` for libraries that read only numbers there."""
    allow_open_ports: bool = False
    """Run a strategy whose workers listen in the machine's network, where others can connect without a password."""
    time_limit_s: float | None = None
    """Seconds of training after which the run is stopped; None for no limit."""
    recorded: bool = False
    """Whether the copy of the recipe or script in the run's folder is trained, since the file itself has changed."""
    python: str
    """The interpreter of the workers."""
    imported: str = ""
    """The file or folder of another program from which the curves were imported; empty for a run that was trained."""
    working_dir: str
    """The folder in which the user started the run, and in which the workers run: relative paths keep their meaning."""

    def __post_init__(self) -> None:
        for name in ("name", "framework", "strategy", "python", "working_dir"):
            check_text(name.replace("_", " "), getattr(self, name))
        for device in self.devices:
            check_text(tr("device id"), device)
        check_flag(tr("allow open ports"), self.allow_open_ports)
        check_flag(tr("recorded"), self.recorded)
        if self.time_limit_s is not None and not 0 < self.time_limit_s < float("inf"):
            raise ValueError(tr("The time limit is {limit} s. Give a time above 0.", limit=self.time_limit_s))
        check_one_of(tr("The way of naming GPUs to CUDA"), self.cuda_ids, CUDA_IDS)
        if (self.recipe is None) == (self.script is None):
            raise ValueError(tr("A run trains either a recipe or a script. Give one of them."))
        if (self.framework == SCRIPT) != (self.script is not None):
            raise ValueError(tr("A recipe has a framework, and a script has {script!r} in its place.", script=SCRIPT))

    @property
    def own_recipe(self) -> Recipe:
        """The recipe of a run that is known to train one."""
        assert self.recipe is not None
        return self.recipe

    def check_startable(self) -> None:
        """Raise `ValueError` with a sentence if the run was imported, so that there is nothing to start."""
        if self.imported:
            raise ValueError(
                tr(
                    "Run {name} was imported from {path}: Trainyard does not know the program that trained it. "
                    "Start that program itself.",
                    name=self.name,
                    path=self.imported,
                )
            )

    def to_json(self) -> dict[str, Any]:
        """Return the content of `spec.json`. A script's has no recipe, training or checkpoint settings."""
        parts = asdict(self)
        unused = RECIPE_PARTS if self.script is not None else frozenset()
        kept = {name: value for name, value in parts.items() if name not in unused and (name, value) not in UNSAID}
        return {"version": VERSION, **kept, "devices": list(self.devices)}

    @classmethod
    def from_json(cls, data: object) -> RunSpec:
        """Build a spec from the content of `spec.json`; unknown fields are ignored.

        Raises `ValueError` with a sentence that names the field, or when a newer version wrote it.
        """
        if not isinstance(data, dict):
            raise ValueError(tr("It is not a JSON object."))  # noqa: TRY004 (the content is wrong, not the caller)
        version = _value("int", data.get("version", VERSION), "version")
        if version > VERSION:
            raise ValueError(
                tr(
                    "It was written by a newer Trainyard (version {version}; this one reads up to {own}). "
                    "Update Trainyard to open it.",
                    version=version,
                    own=VERSION,
                )
            )
        return _part(cls, data)


def read_spec(run_dir: Path) -> RunSpec:
    """Return the spec of a run directory. Raises `ValueError` with a sentence that names the file."""
    path = run_dir / SPEC_FILE
    try:
        spec = RunSpec.from_json(read_json(path))
    except OSError as error:
        raise ValueError(tr("{path} could not be read: {strerror}.", path=path, strerror=error.strerror)) from error
    except ValueError as error:
        raise ValueError(tr("{path} is not a valid spec. {error}", path=path, error=error)) from error
    name, rules = given_name(run_dir), given_rules(run_dir)
    if spec.script is not None and rules is not None:
        spec = replace(spec, script=replace(spec.script, rules=rules))
    return replace(spec, name=name) if name else spec


def given_name(run_dir: Path) -> str:
    """Return the name that the user gave a run after its start; the empty string if there is none."""
    try:
        name = read_json(run_dir / NAME_FILE, MAX_NAME_BYTES)["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return " ".join(name.split())[:MAX_NAME] if isinstance(name, str) else ""


def given_rules(run_dir: Path) -> tuple[str, ...] | None:
    """Return the rules that the user gave a script's run after its start; None if there are none."""
    try:
        rules = read_json(run_dir / RULES_FILE, MAX_RULES_BYTES)["rules"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return tuple(rules[:MAX_RULES]) if isinstance(rules, list) and _are_texts(rules) else None


def write_spec(run_dir: Path, spec: RunSpec) -> None:
    """Write `spec.json`. Raises `OSError`."""
    write_whole(run_dir / SPEC_FILE, json.dumps(spec.to_json(), indent=2) + "\n")


# -- from JSON -----------------------------------------------------------------------------------

_PARTS: dict[str, type] = {
    part.__name__: part for part in (Recipe, Script, Training, Checkpoints, StopTimeouts, ReleaseWatch)
}
_EXPECTED: dict[str, tuple[str, Callable[[object], bool]]] = {
    "str": (tr_noop("a text"), lambda value: isinstance(value, str)),
    "int": (tr_noop("a whole number"), lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": (tr_noop("a number"), lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    "bool": (tr_noop("true or false"), lambda value: isinstance(value, bool)),
    "tuple[str, ...]": (
        tr_noop("a list of texts"),
        lambda value: isinstance(value, (list, tuple)) and _are_texts(value),
    ),
    "Mapping[str, str]": (
        tr_noop("an object of texts"),
        lambda value: isinstance(value, dict) and _are_texts(value.values()),
    ),
    "Mapping[str, SettingValue]": (tr_noop("an object"), lambda value: isinstance(value, dict)),
}
"""By annotation of a field, what its JSON value has to be, in words and as a test."""


def _part(kind: type[Part], data: dict[str, Any], within: str = "") -> Part:
    """Build a dataclass from a JSON object. `within`: the field that holds the object, with a dot; or empty."""
    items = fields(kind)  # type: ignore[arg-type]  # always one of our dataclasses
    needed = [item for item in items if item.default is MISSING and item.default_factory is MISSING]
    if missing := [f"{within}{item.name}" for item in needed if item.name not in data]:
        raise ValueError(tr("It lacks {missing}.", missing=", ".join(missing)))
    known = [item for item in items if item.name in data]
    return kind(**{item.name: _value(str(item.type), data[item.name], within + item.name) for item in known})


def _value(annotation: str, value: Any, name: str) -> Any:  # noqa: ANN401 (JSON)
    """Return a JSON value as its field has it. Raises `ValueError` that names the field when it is of another type."""
    annotation, _, optional = annotation.partition(" | ")
    if optional and value is None:
        return None
    expected, fits = _EXPECTED.get(annotation, (tr_noop("an object"), lambda found: isinstance(found, dict)))
    if not fits(value):
        raise ValueError(
            tr(
                "Its field {name} is {value} where {expected} is expected.",
                name=name,
                value=reprlib.repr(value),
                expected=tr(expected),
            )
        )
    if annotation in _PARTS:
        return _part(_PARTS[annotation], value, f"{name}.")
    return tuple(value) if isinstance(value, list) else value


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
