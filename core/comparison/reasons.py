"""Why two runs may differ: settings, the text of the recipe or script, package versions, devices."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr
from core.runs.workload_text import workload_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.comparison.measured_run import MeasuredRun
    from core.schema.settings import SettingValue

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
