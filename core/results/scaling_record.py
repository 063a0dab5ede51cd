"""The record of a scaling table: what was asked for, the spec of each training, and which runs were made for it.

It is a file beside the runs, replaced as a whole at each change, so that an interrupted table can be continued. What
became of each run is read from the run itself.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.catalog.frameworks import framework
from core.catalog.strategies import Strategy, default_strategy, find_strategy, strategies_of, strategy_of
from core.config.choices import RecipeChoices, compose, resolve
from core.config.validation import batch_divisor, obstacle, without_meaning
from core.devices.device import Device
from core.errors import RunError
from core.history.index import is_run
from core.history.marks import why_no_name
from core.language import stored, tr, tr_plural
from core.runs.directory import ROOT_MODE, cannot_make
from core.runs.owners import owner_of_file
from core.schema.codec import Sentence, decode
from core.schema.files import is_regular, make_folder, read_json, write_whole
from core.schema.paths import SCALING_SUFFIX
from core.schema.spec import RunSpec
from core.system import processes
from core.system.processes import HostId, ProcessId
from core.text import first_names, join_names

FIXED = "fixed"
"""The same global batch on any number of devices: they share the work of a step."""
PER_DEVICE = "per-device"
"""The same batch on each device: the global batch grows with their number."""
BATCHES = (FIXED, PER_DEVICE)
MIN_EPOCHS = 2
"""The first epoch does not count: in it the framework loads, traces and compiles."""


def device_counts(devices: int) -> list[int]:
    """Return 1, 2, 4, ... up to this number of devices, and the number itself as the last."""
    return [*(2**power for power in range(devices.bit_length()) if 2**power < devices), devices]


def plan_specs(choices: RecipeChoices, devices: Sequence[Device], *, name: str, batch: str) -> list[RunSpec]:
    """Return the specs of the trainings, the one with the fewest devices first; the runs are called after `name`.

    `devices`: all devices of this machine. `batch`: one of `BATCHES`. Raises `ValueError` with a sentence for choices
    that make no scaling table. Whether this machine can run each spec is checked by `core.config.validation`.
    """
    chosen = resolve(choices.devices, devices)
    _check_devices(choices, chosen)
    present = [device for device in devices if device.id in chosen]
    strategy = _strategy(choices, present)
    if batch == PER_DEVICE and not strategy.splits_batch:
        raise ValueError(tr(
            "Strategy {strategy} does not split the batch over its devices, so none of them has a batch of its "
            "own. Keep the global batch fixed, or choose another strategy.", strategy=strategy.name,
        ))
    counts = device_counts(len(chosen))
    base = compose(_for_devices(choices, chosen[: counts[-1]], strategy.name, name), devices)
    if base.training.epochs < MIN_EPOCHS:
        raise ValueError(
            tr("The first epoch does not count, since the framework still prepares in it. Train for 2 epochs or more.")
        )
    specs = [base]
    for count in reversed(counts[:-1]):
        own = default_strategy(choices.framework, 1) if count == 1 else strategy.name
        specs.insert(0, compose(_for_devices(choices, chosen[:count], own, name), devices))
    if batch == PER_DEVICE:
        return [
            replace(spec, training=replace(spec.training, batch_size=spec.training.batch_size * len(spec.devices)))
            for spec in specs
        ]
    _check_batch(specs)
    return specs


def run_name(name: str, devices: int) -> str:
    """Return the name of the runs of a scaling table on this number of devices, by which they are recognised."""
    return f"{name}: {devices} {'device' if devices == 1 else 'devices'}"


def _for_devices(choices: RecipeChoices, chosen: Sequence[str], strategy: str, name: str) -> RecipeChoices:
    found = replace(choices, devices=tuple(chosen), strategy=strategy, name=run_name(name, len(chosen)))
    if len(chosen) > 1:
        return found
    # One device trains with another strategy, for which validation refuses what only that of several has.
    others = without_meaning(choices.framework, strategy)
    training = {key: value for key, value in choices.training.items() if key not in others}
    return replace(found, training=training, allow_open_ports=False)


# -- what makes no scaling table -----------------------------------------------------------------


def _check_devices(choices: RecipeChoices, chosen: Sequence[str]) -> None:
    if len(set(chosen)) < len(chosen):
        raise ValueError(
            tr("A device is named twice in {devices}. Name each once.", devices=", ".join(choices.devices))
        )
    if len(chosen) < 2:
        raise ValueError(tr_plural(
            "A scaling table needs at least two devices, but {count} is chosen. Choose more of them.",
            "A scaling table needs at least two devices, but {count} are chosen. Choose more of them.", len(chosen),
        ))


def _strategy(choices: RecipeChoices, chosen: Sequence[Device]) -> Strategy:
    """Return the strategy for several devices. Raises `ValueError` if it trains on one only."""
    framework(choices.framework)  # raises for an unknown one
    name = choices.strategy or default_strategy(choices.framework, len(choices.devices))
    strategy = find_strategy(choices.framework, name)
    if strategy.max_devices == 1:
        others = [each for each in strategies_of(choices.framework) if each.max_devices != 1]
        usable = [each.name for each in others if not obstacle(each, chosen)]
        raise ValueError(tr(
            "Strategy {strategy} trains on one device, and a scaling table compares several. "
            "Choose one of: {others}.", strategy=name, others=", ".join(usable),
        ))
    return strategy


def _check_batch(specs: Sequence[RunSpec]) -> None:
    """Raise `ValueError` unless the batch can be split evenly for each number of devices."""
    batch_size = specs[0].training.batch_size
    divisors = [batch_divisor(spec) for spec in specs]
    if all(batch_size % each == 0 for each in divisors):
        return
    common = math.lcm(*divisors)
    lower = batch_size // common * common
    near = tr("{lower} or {higher}", lower=lower, higher=lower + common) if lower else str(common)
    raise ValueError(tr(
        "A batch of {batch_size} cannot be split evenly for each of {counts} devices with an accumulation of "
        "{accumulation}. Choose a batch of {near}.",
        batch_size=batch_size, counts=join_names([str(len(spec.devices)) for spec in specs]),
        accumulation=specs[0].training.accumulation, near=near,
    ))


VERSION = 1
MAX_NAME = 100
"""Characters of a name: it is a part of the names of its file and of its runs."""
MAX_REPEATS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRun:
    """A run that was made for a scaling table."""

    devices: int
    """Their number."""
    repeat: int
    """1, 2, ..."""
    run: str
    """The name of its folder, beside the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRecord:
    """What was asked for, and which runs were made."""

    path: Path
    name: str
    batch: str
    """One of `BATCHES`."""
    repeats: int
    specs: tuple[RunSpec, ...]
    """One for each number of devices, the smallest first."""
    host: HostId
    """The machine whose devices these are."""
    runs: tuple[ScalingRun, ...] = ()
    """In the order of their starts. Of several for the same cell of the table the last counts."""
    measured_by: ProcessId | None = None
    """The command that makes the runs; None when it has ended, and it may also have been killed."""
    note: Sentence = ""
    """Why the last command ended before all runs were made; the empty string if it made all of them."""

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def is_measured(self) -> bool:
        """Whether a command of this machine makes the runs now."""
        return self.measured_by is not None and self.host == processes.here() and processes.is_alive(self.measured_by)

    @property
    def cells(self) -> list[tuple[RunSpec, int]]:
        """The spec and the number of the repeat of each training, in their order.

        A repeat is made for all numbers of devices before the next one, so that a machine that becomes slower or
        faster meanwhile does so for all of them.
        """
        return [(spec, repeat) for repeat in range(1, self.repeats + 1) for spec in self.specs]

    def run_of(self, devices: int, repeat: int) -> Path | None:
        """Return the directory of the run that counts for a cell; None if there is none, or it was removed."""
        found = [each.run for each in self.runs if (each.devices, each.repeat) == (devices, repeat)]
        path = self.root / found[-1] if found else None
        return path if path is not None and is_run(path) else None

    def with_run(self, devices: int, repeat: int, run_dir: Path) -> ScalingRecord:
        """Note a run that was started, also in the file. Raises `RunError`."""
        made = ScalingRun(devices=devices, repeat=repeat, run=run_dir.name)
        return replace(self, runs=(*self.runs, made)).saved()

    def taken(self) -> ScalingRecord:
        """Note that this process makes the runs, also in the file. Raises as `check_takeable` does, and `RunError`."""
        self.check_takeable()
        return replace(self, host=processes.here(), measured_by=processes.identify(os.getpid()), note="").saved()

    def check_takeable(self) -> None:
        """Raise `ValueError` with a sentence unless a process of this user and machine can make the runs now."""
        if owner := owner_of_file(self.path):
            raise ValueError(
                tr("The scaling table {name} belongs to {owner}. Measure one of your own.", name=self.name, owner=owner)
            )
        here = processes.here()
        if self.host.host != here.host:
            raise ValueError(tr(
                "The scaling table {name} was begun on the machine {host}, whose devices it measures. "
                "Continue it there, or measure another one here.", name=self.name, host=self.host.host,
            ))
        if self.is_measured:
            assert self.measured_by is not None
            raise ValueError(tr(
                "The scaling table {name} is being measured by another command (pid {pid}). "
                "Wait for it, or stop it with Ctrl-C.", name=self.name, pid=self.measured_by.pid,
            ))

    def left(self, note: str = "") -> ScalingRecord:
        """Note that no process makes the runs any longer, and why not all were made. Raises `RunError`."""
        return replace(self, measured_by=None, note=note).saved()

    def saved(self) -> ScalingRecord:
        """Write the file. Raises `RunError`."""
        try:
            make_folder(self.root, ROOT_MODE)
            write_whole(self.path, json.dumps(_to_json(self), indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RunError(cannot_make(self.root, error)) from error
        return self


def new_record(root: Path, specs: Iterable[RunSpec], *, name: str, batch: str, repeats: int) -> ScalingRecord:
    """Return a record that is not in a file yet."""
    return ScalingRecord(
        path=_path(root, name), name=name, batch=batch, repeats=repeats, specs=tuple(specs), host=processes.here()
    )


def free_name(root: Path, wanted: str | None, default: str) -> str:
    """Return the name of a new scaling table: `wanted`, else `default` or, if there is one, `default-2`, ...

    Raises `ValueError` with a sentence for a name that cannot be used, or that another scaling table has.
    """
    if wanted is None:
        base, number = default.lstrip(".")[:MAX_NAME] or "recipe", 1
        while is_regular(_path(root, name := base if number == 1 else f"{base}-{number}")):
            number += 1
        return name
    name = " ".join(wanted.split())
    if problem := why_no_name(name):
        raise ValueError(problem)
    if "/" in name or name.startswith(".") or len(name) > MAX_NAME:
        raise ValueError(tr(
            "A scaling table cannot have the name {name!r}, since its file has it, too. Give at most {limit} "
            "characters without a slash and without a dot at the beginning.", name=name, limit=MAX_NAME,
        ))
    if is_regular(_path(root, name)):
        raise ValueError(tr(
            "There is a scaling table {name} already. Give another name, or continue it: "
            "trainyard scale --resume {name}", name=shlex.quote(name),
        ))
    return name


def names(root: Path) -> list[str]:
    """Return the names of all scaling tables in a folder of runs."""
    return sorted(path.name.removesuffix(SCALING_SUFFIX) for path in root.glob(f"[!.]*{SCALING_SUFFIX}"))


def _path(root: Path, name: str) -> Path:
    return root / f"{name}{SCALING_SUFFIX}"


# -- to JSON and back ----------------------------------------------------------------------------


def _to_json(record: ScalingRecord) -> dict[str, Any]:
    return {
        "version": VERSION, "name": record.name, "batch": record.batch, "repeats": record.repeats,
        "specs": [spec.to_json() for spec in record.specs], "host": asdict(record.host),
        "runs": [asdict(each) for each in record.runs],
        "measured_by": None if record.measured_by is None else asdict(record.measured_by), "note": stored(record.note),
    }


def read_record(root: Path, name: str) -> ScalingRecord:
    """Return the record of a scaling table. Raises `ValueError` with a sentence if there is none that is whole."""
    path = _path(root, name)
    if "/" in name or not is_regular(path):
        known = names(root)
        there = (
            tr("There are: {names}.", names=join_names(first_names(known)))
            if known
            else tr("There are none yet; `trainyard scale RECIPE --devices ID,ID` measures one.")
        )
        raise ValueError(tr("There is no scaling table {name!r} in {root}. {there}", name=name, root=root, there=there))
    try:
        return _from_json(path, name, read_json(path))
    except OSError as error:
        raise ValueError(tr("{path} could not be read: {strerror}.", path=path, strerror=error.strerror)) from error
    except ValueError as error:
        raise ValueError(tr("{path} is not a scaling table. {error}", path=path, error=error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What the file of a record has."""

    version: int
    specs: tuple[RunSpec, ...]
    runs: tuple[ScalingRun, ...]
    batch: str
    repeats: int
    host: HostId
    measured_by: ProcessId | None
    note: Sentence = ""


def _from_json(path: Path, name: str, data: Any) -> ScalingRecord:  # noqa: ANN401 (JSON)
    if isinstance(data, dict) and isinstance(version := data.get("version"), int) and version > VERSION:
        raise ValueError(tr("It was written by a newer Trainyard. Update Trainyard to open it."))
    found = decode(_Written, data)
    # Another user's record could name a run elsewhere.
    if any(each.run in {"", ".", ".."} or "/" in each.run or "\0" in each.run for each in found.runs):
        raise ValueError(tr("It names a run that is not in its folder."))
    for spec in found.specs:
        strategy_of(spec)  # raises for one that this version does not know
    counts = [len(spec.devices) for spec in found.specs]
    whole = found.batch in BATCHES and 1 <= found.repeats <= MAX_REPEATS
    if not whole or len(counts) < 2 or counts != sorted(set(counts)) or any(not spec.recipe for spec in found.specs):
        raise ValueError(tr("Its trainings are not those of one recipe on more and more devices."))
    return ScalingRecord(
        path=path, name=name, batch=found.batch, repeats=found.repeats, specs=found.specs, runs=found.runs,
        host=found.host, measured_by=found.measured_by, note=found.note,
    )
