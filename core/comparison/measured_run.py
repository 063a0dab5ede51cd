"""A run with all that it measured, read to its end, with its settings; and why two such runs may differ."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.config.presets import secret_names
from core.errors import RunError
from core.history.index import is_run
from core.history.summary import ENVIRONMENT, SEED, setting_values
from core.language import tr
from core.runs.directory import workload_text
from core.runs.facts import RunFacts
from core.runs.run import Run
from core.schema.event_kinds import Plan
from core.schema.events import Event
from core.schema.settings import SettingValue
from core.schema.spec import RunSpec
from core.series.report import series_of
from core.series.run_series import RunSeries

HIDDEN = "(hidden)"
"""In the place of a value that looks like a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSettings:
    """All settings of a run but its name."""

    values: Mapping[str, SettingValue]
    """See `setting_values`."""
    secrets: frozenset[str] = frozenset()
    """The names whose values look like secrets."""

    @classmethod
    def of(cls, spec: RunSpec, devices: Mapping[str, Mapping[str, Any]]) -> NamedSettings:
        """Return the settings of a run. `devices`: what the run recorded of each device, by id; may be empty."""
        secrets = frozenset(f"{ENVIRONMENT}{name}" for name in secret_names(spec))
        return cls(values=setting_values(spec, devices), secrets=secrets)

    @property
    def group(self) -> str:
        """The same text for runs that differ only in the seed, the name and the identity of their devices."""
        return json.dumps({name: value for name, value in self.values.items() if name != SEED}, sort_keys=True)

    def shown(self, name: str) -> SettingValue:
        """Return a value as it may be shown; None if there is no such setting."""
        return HIDDEN if name in self.secrets else self.values.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run as it was when it was read."""

    dir: Path
    owner: str | None
    """The user to whom it belongs if that is another one."""
    spec: RunSpec
    facts: RunFacts
    series: RunSeries
    settings: NamedSettings

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self.dir.name

    @property
    def plan(self) -> Plan | None:
        """The amount of training; None for scripts, and before the data were loaded."""
        return self.facts.plan or self.facts.earlier_plan


def read_run(run_dir: Path, listen: Callable[[Run, list[Event]], None] | None = None) -> MeasuredRun:
    """Read a run. `listen` is called with all its events.

    Raises `RunError` or `ValueError` with a sentence, also if its folder vanishes meanwhile.
    """
    with unless_removed(run_dir):
        run = Run.attach(run_dir)
        run.spec()
        events = run.catch_up()
        series = series_of(run, events)
        if listen is not None:
            listen(run, events)
        return measured_run(run, series)


def measured_run(run: Run, series: RunSeries) -> MeasuredRun:
    """Return a run as it was read. Raises `ValueError` with a sentence if its spec cannot be used."""
    spec = run.spec()
    settings = NamedSettings.of(spec, run.facts.devices)
    return MeasuredRun(dir=run.dir, owner=run.owner, spec=spec, facts=run.facts, series=series, settings=settings)


@contextmanager
def unless_removed(run_dir: Path) -> Iterator[None]:
    """Read a run inside of this. Raises `RunError` with a sentence if its folder vanishes meanwhile."""
    try:
        yield
    except ValueError as error:
        if not is_run(run_dir):
            raise RunError(removed_sentence(run_dir)) from error
        raise
    if not is_run(run_dir):  # it may have been removed while it was read, so that a part is missing
        raise RunError(removed_sentence(run_dir))


def read_runs(run_dirs: Iterable[Path]) -> list[MeasuredRun]:
    """Read at least two different runs, in their order. Raises like `read_run`."""
    found = list(run_dirs)
    check_different(found)
    if len(found) < 2:
        raise ValueError(tr("A comparison needs at least two runs. `trainyard runs` lists them."))
    return [read_run(each) for each in found]


def check_different(run_dirs: Sequence[Path]) -> None:
    """Raise `ValueError` with a sentence if a run is among them twice."""
    twice = next((each for number, each in enumerate(run_dirs) if each in run_dirs[:number]), None)
    if twice is not None:
        raise ValueError(tr("Run {run} is named twice. Name each run once.", run=twice.name))


def removed_sentence(run_dir: Path) -> str:
    """Return the sentence on a run that is not there any more."""
    return tr("Run {run} was removed while it was compared. Compare the others again without it.", run=run_dir.name)


Pair = tuple[str | None, str | None]
"""The value of the first run and that of the second; None where it is missing or was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """What differs between two runs."""

    settings: Mapping[str, tuple[SettingValue, SettingValue]]
    packages: Mapping[str, Pair]
    """Versions by name: those of Python and Trainyard, then those of the installed packages."""
    devices: Mapping[str, Pair]
    """What differs of their devices: number and kind, ids, memory."""
    commits: Pair | None
    """The commits of the workload's folder, with `+` after one whose files were changed; None if they are the same."""
    text: tuple[str, ...]
    """The lines of a unified difference of the recipe or script; none if the texts are the same."""
    text_notice: str
    """Why there is no difference of texts, in a sentence; the empty string if they could be compared."""


def reasons(first: MeasuredRun, second: MeasuredRun) -> Reasons:
    """Return what differs between two runs. A package is compared if both runs recorded their packages."""
    names = dict.fromkeys([*first.settings.values, *second.settings.values])
    differing = [name for name in names if first.settings.values.get(name) != second.settings.values.get(name)]
    commits = _commit(first), _commit(second)
    text, notice = _text_difference(first, second)
    return Reasons(
        settings={name: (first.settings.shown(name), second.settings.shown(name)) for name in differing},
        packages=differing_packages(first, second),
        devices=_differing(_devices(first), _devices(second)),
        commits=commits if commits[0] != commits[1] else None,
        text=tuple(text),
        text_notice=notice,
    )


def differing_packages(first: MeasuredRun, second: MeasuredRun) -> dict[str, Pair]:
    """Return the versions that differ, by name; none unless both runs recorded their packages."""
    return _differing(_packages(first), _packages(second))


def _differing(first: Mapping[str, str] | None, second: Mapping[str, str] | None) -> dict[str, Pair]:
    if first is None or second is None:
        return {}
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


def _packages(run: MeasuredRun) -> dict[str, str] | None:
    """Return the versions by name; None if the run has not recorded them."""
    software = run.facts.software
    if software is None:
        return None
    return {"Python": software.version, "Trainyard": software.trainyard, **dict(sorted(software.packages.items()))}


def _devices(run: MeasuredRun) -> dict[str, str]:
    found = {"devices": str(run.settings.values["devices"]), "ids": ", ".join(run.spec.devices)}
    memory = [run.facts.devices.get(each, {}).get("memory_total_bytes") for each in run.spec.devices]
    if any(memory):
        found["memory_total_bytes"] = ", ".join("-" if each is None else f"{each}" for each in memory)
    return found


def _commit(run: MeasuredRun) -> str | None:
    source = run.facts.source
    return None if source is None else source.commit + "+" * source.changed


def _text_difference(first: MeasuredRun, second: MeasuredRun) -> tuple[list[str], str]:
    texts = []
    for run in (first, second):
        text = workload_text(run.dir, run.spec, run.facts.started, foreign=run.owner is not None)
        if text is None:
            return [], tr("The text that run {run} trained is not known: no copy was kept, and its file has changed.",
                          run=run.id)  # fmt: skip
        texts.append(text.splitlines())
    before, after = texts
    return list(difflib.unified_diff(before, after, first.id, second.id, lineterm="")), ""
