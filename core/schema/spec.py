"""What was asked of a run, and of each of its workers: frozen dataclasses that check their fields, to JSON and back."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..language import tr, tr_noop
from .codec import decode
from .event_kinds import SettingChange, read_all
from .events import parse_lines
from .files import read_json, read_whole, write_whole
from .paths import EVENTS, NAME_FILE, RULES_FILE, SETTING_EVENTS, SPEC_FILE
from .setting import Flag, OneOf, Setting, check_settings, check_value, setting, settings_of
from .settings import CUDA_IDS, GPUS, Checkpoints, Recipe, ReleaseWatch, Script, StopTimeouts, Training, check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
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
CHANGEABLE = ("epochs", "learning_rate", "checkpoints.unit", "checkpoints.every")
"""The settings that can be changed while a run trains."""
UNSAID = (
    ("imported", ""), ("time_limit_s", None), ("recorded", False), ("sweep", ""), ("probe_steps", 0),
    ("finds_nan", False),
)
"""Fields, with the value that is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    version: int = VERSION


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
    cuda_ids: str = setting(
        "uuid", OneOf(CUDA_IDS), group=GPUS, title=tr_noop("GPU names"),
        help=tr_noop("how CUDA_VISIBLE_DEVICES names the GPUs; give numbers if a library (such as vLLM) cannot read "
                     "UUIDs: they are looked up at the start"),
    )
    allow_open_ports: bool = False
    """Run a strategy whose workers listen in the machine's network, where others can connect without a password."""
    time_limit_s: float | None = None
    """Seconds of training after which the run is stopped; None for no limit."""
    recorded: bool = False
    """Whether the copy of the recipe or script in the run's folder is trained, since the file itself has changed."""
    sweep: str = ""
    """What the runs have in common that were queued together for several values in a field; empty for any other."""
    probe_steps: int = 0
    """Optimizer steps of a run that only measures memory, and validates one batch; 0 for a training (`core.fit`)."""
    finds_nan: bool = False
    """Whether the run only looks for the layer that makes the first number which is not finite (`core.fit.replay`)."""
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
        check_value("allow_open_ports", Flag(), self.allow_open_ports)
        check_value("recorded", Flag(), self.recorded)
        if self.time_limit_s is not None and not 0 < self.time_limit_s < float("inf"):
            raise ValueError(tr("The time limit is {limit} s. Give a time above 0.", limit=self.time_limit_s))
        check_settings(self)
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
                    name=self.name, path=self.imported,
                )
            )

    def to_json(self) -> dict[str, Any]:
        """Return the content of `spec.json`. A script's has no recipe, training or checkpoint settings."""
        parts = asdict(self)
        unused = RECIPE_PARTS if self.script is not None else frozenset()
        kept = {name: value for name, value in parts.items() if name not in unused and (name, value) not in UNSAID}
        if self.script is not None and self.training.stop_on_nan:
            kept["training"] = {"stop_on_nan": True}
        return {"version": VERSION, **kept, "devices": list(self.devices)}

    @classmethod
    def from_json(cls, data: object) -> RunSpec:
        """Build a spec from the content of `spec.json`; unknown fields are ignored.

        Raises `ValueError` with a sentence that names the field, or when a newer version wrote it.
        """
        version = decode(_Version, data).version
        if version > VERSION:
            raise ValueError(
                tr(
                    "It was written by a newer Trainyard (version {version}; this one reads up to {own}). "
                    "Update Trainyard to open it.",
                    version=version, own=VERSION,
                )
            )
        return decode(cls, data)


def read_spec(run_dir: Path, *, changed: bool = True) -> RunSpec:
    """Return the spec of a run directory. Raises `ValueError` with a sentence that names the file.

    `changed`: with the settings that were changed while it trained, and not as it was started.
    """
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
    if changed:
        with contextlib.suppress(ValueError):  # values that no run of ours has written
            spec = with_changes(spec, ((each.name, each.new) for each in setting_changes(run_dir)))
    return replace(spec, name=name) if name else spec


def setting_changes(run_dir: Path) -> list[SettingChange]:
    """Return how settings were changed while the run trained, in order."""
    try:
        lines = read_whole(run_dir / EVENTS / SETTING_EVENTS)
    except OSError:
        return []
    return read_all(SettingChange, filter(None, parse_lines(lines)))


def with_changes(spec: RunSpec, changes: Iterable[tuple[str, Any]]) -> RunSpec:
    """Return a spec with other values of settings that are `CHANGEABLE`; the last one of each counts.

    Raises `ValueError` with a sentence if a setting cannot have its value.
    """
    new: dict[str, dict[str, Any]] = {"training": {}, "checkpoints": {}}
    for name, value in changes:
        if name in CHANGEABLE:
            part, _, field_name = name.rpartition(".")
            new[part or "training"][field_name] = value
    training, checkpoints = replace(spec.training, **new["training"]), replace(spec.checkpoints, **new["checkpoints"])
    return replace(spec, training=training, checkpoints=checkpoints)


def changed_in_epoch(spec: RunSpec, asked: Mapping[str, Any], epoch: int, *, depends: str = "") -> RunSpec:
    """Return the spec after what is asked of a run that trains in this epoch, from 1.

    `asked`: values by the names in `CHANGEABLE`, or `finish` for the end after this epoch. `depends`: the recipe's
    function that depends on the number of epochs. Raises `ValueError` with a sentence.
    """
    if asked.get("finish") is True:
        return with_changes(spec, [("epochs", epoch)])
    new = with_changes(spec, asked.items())
    epochs = new.training.epochs
    if epochs == spec.training.epochs:
        return new
    if epochs < epoch:
        raise ValueError(
            tr("Epoch {epoch} has begun. Give at least {epoch} epochs, or finish after this one.", epoch=epoch)
        )
    if depends or spec.training.schedule != "constant":
        what = tr("{function}() of the recipe", function=depends) if depends else tr("The run's schedule")
        raise ValueError(
            tr(
                "{what} depends on all {epochs} epochs, so their number cannot change. Finish after an epoch, or start "
                "a run with {new} epochs.",
                what=what, epochs=spec.training.epochs, new=epochs,
            )
        )
    return new


def changeable(name: str) -> Setting:
    """Return the row of one of the settings in `CHANGEABLE`."""
    part, _, own = name.rpartition(".")
    return settings_of(Checkpoints if part else Training)[own]


def changeable_values(spec: RunSpec) -> dict[str, Any]:
    """Return the values of the settings that are `CHANGEABLE`, by their names."""
    parts = {"": spec.training, "checkpoints": spec.checkpoints}
    return {name: getattr(parts[name.rpartition(".")[0]], name.rpartition(".")[2]) for name in CHANGEABLE}


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
    are_texts = isinstance(rules, list) and all(isinstance(each, str) for each in rules)
    return tuple(rules[:MAX_RULES]) if are_texts else None


def write_spec(run_dir: Path, spec: RunSpec) -> None:
    """Write `spec.json`. Raises `OSError`."""
    write_whole(run_dir / SPEC_FILE, json.dumps(spec.to_json(), indent=2) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAssignment:
    """What the launcher passes to a worker: its rank, devices and role."""

    rank: int
    world_size: int
    devices: tuple[str, ...]
    """Ids of all devices of the run."""
    own: tuple[str, ...]
    """Ids of the devices this worker computes on; none for one that only coordinates or keeps variables."""
    kind: str
    """`cpu` or `nvidia`, for all devices of the run."""
    cores: tuple[int, ...]
    """The logical cores this worker is pinned to; empty leaves the choice to the operating system."""
    target: str
    """The strategy below `core.worker`: `pytorch.ddp` for its `train`, or `pytorch.strategies:single`; empty for a
    script."""
    role: str = "worker"
    """`worker`, or `chief` or `ps` in a parameter-server run, or `fetch` (see `core.worker.main`)."""
    serves: bool = False
    """Whether it serves other workers and never ends by itself: it is terminated when they have ended."""
    addresses: tuple[str, ...] = ()
    """`host:port` by rank, for strategies whose workers meet over the network; else empty."""
    gate: int | None = None
    """The pipe on which workers wait for the process that fetches (`core.worker.main`); None if there is none."""
    host: int = 0
    """The number of its machine; 0 is that of rank 0. `devices` are those of the run on this machine."""
    hosts: int = 1
    """The number of machines."""
    meeting: str = ""
    """`host:port` at which the ranks of several machines meet; empty if all are on one machine."""
    interface: str = ""
    """The network interface over which they meet; empty if all are on one machine."""
    resumes: bool = False
    """Whether the run was trained before, which a worker on another machine cannot see."""

    @property
    def local_rank(self) -> int:
        """The number of its first device among the devices of the run on its machine."""
        return self.devices.index(self.own[0]) if self.own else 0

    def to_text(self) -> str:
        """Return the text for a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> RankAssignment:
        """Parse what `to_text` returned. Raises `ValueError`."""
        return decode(cls, json.loads(text))
