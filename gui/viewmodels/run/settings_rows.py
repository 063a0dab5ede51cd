"""What a run was trained with, in groups of named values: those that differ from the defaults first."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from core.catalog import recipes
from core.catalog.frameworks import framework
from core.catalog.recipes import RecipeFile
from core.catalog.strategies import strategy_of
from core.config.presets import repeat_line, secret_names
from core.config.strategy_settings import rate_arithmetic, without_meaning
from core.language import tr, tr_noop
from core.runs.facts.run_facts import RunFacts, part_sentences
from core.schema.event_kinds import Source
from core.schema.setting import settings_of
from core.schema.settings import COUNTED, Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.schema.spec import RunSpec
from core.text import join_names
from gui.style.formatting import setting_title

HIDDEN = tr_noop("hidden")
"""In the place of a value that looks like a secret."""
SCRIPT_PACKAGES = ("torch", "tensorflow", "keras", "jax", "numpy", "lightning", "transformers", "accelerate")
"""Packages whose versions are shown if they are installed: of a recipe's framework too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One value."""

    label: str
    value: str
    usual: str = ""
    """The default, where the value differs from it; else the empty string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingGroup:
    """Values that belong together."""

    title: str
    rows: tuple[SettingRow, ...]
    is_wide: bool = False
    """Whether the values are long, such as paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """All groups, and the command that starts the same run; the empty string for an imported run."""

    groups: tuple[SettingGroup, ...]
    command: str

    @property
    def text(self) -> str:
        """Everything as plain text."""
        lines = []
        for group in self.groups:
            lines.append(group.title)
            lines += [f"  {row.label}: {row.value}{_default(row)}" for row in group.rows]
            lines.append("")
        return "\n".join([*lines, *([tr("Command"), f"  {self.command}", ""] if self.command else [])])


def run_settings(spec: RunSpec, facts: RunFacts, labels: Mapping[str, str], run_dir: str) -> RunSettings:
    """Return what a run was trained with. `labels`: names of devices by id."""
    if spec.imported:
        rows = [
            SettingRow(label=tr("Imported from"), value=spec.imported),
            SettingRow(label=tr("Run folder"), value=run_dir),
        ]
        return RunSettings(groups=(SettingGroup(title=tr("Folders"), rows=tuple(rows), is_wide=True),), command="")
    named = [*_training_groups(spec)] if spec.script is None else [*_script_groups(spec)]
    named += [
        (tr("After training"), [*setting_rows(spec.release, ReleaseWatch()), *_stop_rows(spec)]),
    ]
    changed = [row for _, rows in named for row in rows if row.usual]
    groups = [
        SettingGroup(title=tr("Changed from the defaults"), rows=tuple(changed)),
        SettingGroup(title=tr("Where"), rows=tuple(_where(spec, labels))),
        SettingGroup(title=tr("Parts of the model"), rows=tuple(_parts(facts, labels)), is_wide=True),
        SettingGroup(title=tr("Software"), rows=tuple(_software(facts))),
        *(SettingGroup(title=title, rows=tuple(row for row in rows if not row.usual)) for title, rows in named),
        SettingGroup(title=tr("Folders"), rows=tuple(_folders(spec, run_dir)), is_wide=True),
    ]
    return RunSettings(groups=tuple(group for group in groups if group.rows), command=repeat_line(spec))


def _default(row: SettingRow) -> str:
    return f" {tr('(default: {value})', value=row.usual)}" if row.usual else ""


def setting_rows(values: object, usual: object, left_out: Collection[str] = ()) -> list[SettingRow]:
    """Return the settings of a dataclass as rows, with the default where they differ."""
    return [
        SettingRow(
            label=tr(row.title),
            value=row.words(value),
            usual=row.words(default) if value != default else "",
        )
        for name, row in settings_of(type(values)).items()
        if name not in left_out
        for value, default in [(getattr(values, name), getattr(usual, name))]
    ]


def _text(value: object) -> str:
    if value is None:
        return tr("none")
    if isinstance(value, bool):
        return tr("on") if value else tr("off")
    return f"{value:g}" if isinstance(value, float) else str(value) or tr("(empty)")


def _training_groups(spec: RunSpec) -> Iterator[tuple[str, list[SettingRow]]]:
    left_out = {
        *(() if spec.training.rate_scaling != "none" else ("reference_batch",)),
        *without_meaning(spec.framework, spec.strategy),
    }
    recipe = _recipe_now(spec)
    rate = recipe.learning_rate if recipe is not None else None  # a run keeps the rate that it found in the recipe
    rows = setting_rows(spec.training, Training(learning_rate=rate), left_out)
    if scaled := rate_arithmetic(spec.training):
        rows.append(SettingRow(label=tr("Scaled learning rate"), value=scaled, usual=tr("not scaled")))
    yield tr("Training"), rows
    yield tr("Recipe"), _recipe_rows(spec, recipe)
    hidden = () if spec.checkpoints.unit in COUNTED else ("every",)
    yield tr("Checkpoints"), setting_rows(spec.checkpoints, Checkpoints(), hidden)


def _recipe_now(spec: RunSpec) -> RecipeFile | None:
    """Return the recipe's file as it is now; None if it cannot be read any more."""
    try:
        return recipes.read(Path(spec.own_recipe.path))
    except ValueError:
        return None


def _recipe_rows(spec: RunSpec, recipe: RecipeFile | None) -> list[SettingRow]:
    """Return the recipe's own settings, with the defaults of its file if that can be read."""
    usual = {each.name: each.default for each in recipe.settings} if recipe is not None else {}
    return [
        SettingRow(
            label=setting_title(name),
            value=_text(value),
            usual=_text(usual[name]) if name in usual and usual[name] != value else "",
        )
        for name, value in spec.own_recipe.settings.items()
    ]


def _script_groups(spec: RunSpec) -> Iterator[tuple[str, list[SettingRow]]]:
    script = spec.script
    assert script is not None
    arguments = shlex.join(script.arguments)
    rows = [SettingRow(label=tr("Arguments"), value=arguments or tr("none"))]
    if script.rules:
        rows.append(SettingRow(label=tr("Rules for the log"), value="\n".join(script.rules)))
    if script.expression:
        rows.append(SettingRow(label=tr("Log pattern"), value=script.expression))
    yield tr("Script"), rows
    secret = set(secret_names(spec))
    variables = [
        SettingRow(label=name, value=tr(HIDDEN) if name in secret else value or tr("(empty)"))
        for name, value in script.environment.items()
    ]
    variables += [SettingRow(label=name, value=tr("from the environment at the start")) for name in script.inherited]
    yield tr("Variables"), variables


def _stop_rows(spec: RunSpec) -> list[SettingRow]:
    hidden = {name for name, row in settings_of(StopTimeouts).items() if not row.is_for(spec.framework)}
    return setting_rows(spec.stop_timeouts, StopTimeouts.usual(is_script=spec.script is not None), hidden)


def _where(spec: RunSpec, labels: Mapping[str, str]) -> Iterator[SettingRow]:
    try:
        strategy = tr(strategy_of(spec).title)
        title = "" if spec.script else framework(spec.framework).title
    except ValueError:  # of a newer version
        strategy, title = spec.strategy, spec.framework
    if title:
        yield SettingRow(label=tr("Framework"), value=title)
    yield SettingRow(label=tr("Strategy"), value=strategy)
    yield SettingRow(label=tr("Devices"), value=join_names(labels.get(each, each) for each in spec.devices))
    if any(not each.startswith("cpu:") for each in spec.devices):
        yield from setting_rows(spec, replace(spec, cuda_ids="uuid"))
    if spec.allow_open_ports:
        yield SettingRow(label=tr("Open ports"), value=tr("allowed"))


def _parts(facts: RunFacts, labels: Mapping[str, str]) -> Iterator[SettingRow]:
    found = part_sentences(facts.parts.values(), labels)
    return (SettingRow(label=label, value=sentence) for label, sentence in found)


def _software(facts: RunFacts) -> Iterator[SettingRow]:
    software = facts.software
    if software is not None:
        yield SettingRow(label="Python", value=software.version)
        installed = {name.lower().replace("_", "-"): version for name, version in software.packages.items()}
        for name in SCRIPT_PACKAGES:
            if name in installed:
                yield SettingRow(label=name, value=installed[name])
        if software.trainyard:
            yield SettingRow(label="Trainyard", value=software.trainyard)
        yield SettingRow(label=tr("Packages"), value=tr("{count} installed", count=len(software.packages)))
    if facts.source is not None:
        yield SettingRow(label=tr("Git commit"), value=_commit(facts.source))


def _commit(source: Source) -> str:
    parts = [source.commit[:12] or tr("no commit yet")]
    parts += [tr("branch {branch}", branch=source.branch)] if source.branch else []
    parts += [tr("with uncommitted changes")] if source.changed else [tr("nothing uncommitted")]
    return tr(", ").join(parts)


def _folders(spec: RunSpec, run_dir: str) -> Iterator[SettingRow]:
    workload = spec.own_recipe.path if spec.script is None else spec.script.path or f"python -m {spec.script.module}"
    yield SettingRow(label=tr("Recipe") if spec.script is None else tr("Script"), value=workload)
    yield SettingRow(label="Python", value=spec.python)
    yield SettingRow(label=tr("Working folder"), value=spec.working_dir)
    yield SettingRow(label=tr("Run folder"), value=run_dir)
