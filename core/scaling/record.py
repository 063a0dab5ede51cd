"""The record of a scaling table: what was asked for, and which runs were made for it.

It is a file beside the runs, replaced as a whole at each change, so that an interrupted table can be continued. What
became of each run is read from the run itself.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from core.catalog.strategies import strategy_of
from core.errors import RunError
from core.history.index import is_run
from core.history.marks import why_no_name
from core.language import tr
from core.runs.directory import ROOT_MODE, cannot_make
from core.runs.ownership import owner_of_file
from core.scaling.plan import BATCHES
from core.schema.codec import decode
from core.schema.files import is_regular, make_folder, read_json, write_whole
from core.schema.paths import SCALING_SUFFIX
from core.schema.spec import RunSpec  # noqa: TC001 (the codec reads annotations)
from core.system import processes
from core.system.processes import HostId, ProcessId  # noqa: TC001 (likewise)
from core.text import first_names, join_names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
    """One of `core.scaling.plan.BATCHES`."""
    repeats: int
    specs: tuple[RunSpec, ...]
    """One for each number of devices, the smallest first."""
    host: HostId
    """The machine whose devices these are."""
    runs: tuple[ScalingRun, ...] = ()
    """In the order of their starts. Of several for the same cell of the table the last counts."""
    measured_by: ProcessId | None = None
    """The command that makes the runs; None when it has ended, and it may also have been killed."""
    note: str = ""
    """Why the last command ended before all runs were made, in English; the empty string if it made all of them."""

    @property
    def root(self) -> Path:
        """The folder of the runs."""
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
        return _written(replace(self, runs=(*self.runs, made)))

    def taken(self) -> ScalingRecord:
        """Note that this process makes the runs, also in the file.

        Raises `ValueError` as `check_takeable` does, and `RunError` when it cannot be written.
        """
        self.check_takeable()
        return _written(replace(self, host=processes.here(), measured_by=processes.identify(os.getpid()), note=""))

    def check_takeable(self) -> None:
        """Raise `ValueError` with a sentence unless a process of this user and machine can make the runs now."""
        if owner := owner_of_file(self.path):
            raise ValueError(
                tr("The scaling table {name} belongs to {owner}. Measure one of your own.", name=self.name, owner=owner)
            )
        here = processes.here()
        if self.host.host != here.host:
            raise ValueError(
                tr(
                    "The scaling table {name} was begun on the machine {host}, whose devices it measures. "
                    "Continue it there, or measure another one here.",
                    name=self.name,
                    host=self.host.host,
                )
            )
        if self.is_measured:
            assert self.measured_by is not None
            raise ValueError(
                tr(
                    "The scaling table {name} is being measured by another command (pid {pid}). "
                    "Wait for it, or stop it with Ctrl-C.",
                    name=self.name,
                    pid=self.measured_by.pid,
                )
            )

    def left(self, note: str = "") -> ScalingRecord:
        """Note that no process makes the runs any longer, and why not all were made. Raises `RunError`."""
        return _written(replace(self, measured_by=None, note=note))

    def saved(self) -> ScalingRecord:
        """Write the file. Raises `RunError`."""
        return _written(self)


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
        raise ValueError(
            tr(
                "A scaling table cannot have the name {name!r}, since its file has it, too. Give at most {limit} "
                "characters without a slash and without a dot at the beginning.",
                name=name,
                limit=MAX_NAME,
            )
        )
    if is_regular(_path(root, name)):
        raise ValueError(
            tr(
                "There is a scaling table {name} already. Give another name, or continue it: "
                "trainyard scale --resume {name}",
                name=shlex.quote(name),
            )
        )
    return name


def names(root: Path) -> list[str]:
    """Return the names of all scaling tables in a folder of runs."""
    return sorted(path.name.removesuffix(SCALING_SUFFIX) for path in root.glob(f"[!.]*{SCALING_SUFFIX}"))


def _path(root: Path, name: str) -> Path:
    return root / f"{name}{SCALING_SUFFIX}"


def _written(record: ScalingRecord) -> ScalingRecord:
    try:
        make_folder(record.root, ROOT_MODE)
        write_whole(record.path, json.dumps(_to_json(record), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise RunError(cannot_make(record.root, error)) from error
    return record


# -- to JSON and back ----------------------------------------------------------------------------


def _to_json(record: ScalingRecord) -> dict[str, Any]:
    return {
        "version": VERSION,
        "name": record.name,
        "batch": record.batch,
        "repeats": record.repeats,
        "specs": [spec.to_json() for spec in record.specs],
        "host": asdict(record.host),
        "runs": [asdict(each) for each in record.runs],
        "measured_by": None if record.measured_by is None else asdict(record.measured_by),
        "note": record.note,
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
    note: str = ""


def _from_json(path: Path, name: str, data: Any) -> ScalingRecord:  # noqa: ANN401 (JSON)
    if isinstance(data, dict) and isinstance(version := data.get("version"), int) and version > VERSION:
        raise ValueError(tr("It was written by a newer Trainyard. Update Trainyard to open it."))
    found = decode(_Written, data)
    for each in found.runs:
        _check_folder_name(each.run)
    for spec in found.specs:
        strategy_of(spec)  # raises for one that this version does not know
    counts = [len(spec.devices) for spec in found.specs]
    whole = found.batch in BATCHES and 1 <= found.repeats <= MAX_REPEATS
    if not whole or len(counts) < 2 or counts != sorted(set(counts)) or any(not spec.recipe for spec in found.specs):
        raise ValueError(tr("Its trainings are not those of one recipe on more and more devices."))
    return ScalingRecord(
        path=path, name=name, batch=found.batch, repeats=found.repeats, specs=found.specs, runs=found.runs,
        host=found.host, measured_by=found.measured_by, note=found.note,
    )  # fmt: skip


def _check_folder_name(text: str) -> None:
    """Raise `ValueError` unless this is the name of a run's folder: another user's record could name one elsewhere."""
    if text in {"", ".", ".."} or "/" in text or "\0" in text:
        raise ValueError(tr("It names a run that is not in its folder."))
