"""What a run was trained with, in groups of named values: those that differ from the defaults first."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from core.catalog import recipes
from core.catalog.frameworks import framework
from core.catalog.strategies import strategy_of
from core.config.choices import INTERRUPT_S
from core.config.presets import secret_names
from core.config.shell_command import repeat_line
from core.config.strategy_settings import STRATEGY_SETTINGS, rate_arithmetic, without_meaning
from core.language import tr, tr_noop, tr_plural
from core.runs.facts.model_parts import part_sentences
from core.schema.settings import Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.text import join_names
from gui.style.formatting import setting_title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from core.catalog.recipes import RecipeFile
    from core.runs.facts.run_facts import RunFacts
    from core.runs.facts.software import Source
    from core.schema.spec import RunSpec

HIDDEN = tr_noop("hidden")
"""In the place of a value that looks like a secret."""
FROM_RECIPE, OFF = tr_noop("from the recipe"), tr_noop("off")
TRAINING = {
    "epochs": tr_noop("Epochs"), "steps_per_epoch": tr_noop("Steps per epoch"), "batch_size": tr_noop("Global batch"),
    "learning_rate": tr_noop("Learning rate"),
    "schedule": tr_noop("Schedule"), "warmup_steps": tr_noop("Warm-up steps"), "weight_decay": tr_noop("Weight decay"),
    "gradient_clip": tr_noop("Gradient clipping"), "patience": tr_noop("Stop early after"),
    "stop_on_nan": tr_noop("Stop on NaN"), "precision": tr_noop("Precision"),
    "accumulation": tr_noop("Accumulation"), "micro_batches": tr_noop("Micro-batches"),
    "loader_workers": tr_noop("Data-loader workers"), "seed": tr_noop("Seed"), "compile": tr_noop("Compile"),
    "training_metrics": tr_noop("Training metrics"),
    "rate_scaling": tr_noop("Scaling of the learning rate"), "reference_batch": tr_noop("Reference batch"),
    **{row.name: row.title for row in STRATEGY_SETTINGS},
}  # fmt: skip
CHECKPOINTS = {
    "unit": tr_noop("Save"),
    "every": tr_noop("Every"),
    "keep": tr_noop("Keep latest"),
    "best": tr_noop("Keep best"),
}
RELEASE = {"tolerance_mb": tr_noop("Memory tolerance in MB"), "wait_s": tr_noop("Memory wait in s")}
STOPPING = {
    "ask_s": tr_noop("Stop request in s"),
    "interrupt_s": tr_noop("SIGINT in s"),
    "terminate_s": tr_noop("SIGTERM in s"),
}
CHOICES = {
    "schedule": (tr_noop("constant"), tr_noop("cosine")),
    "rate_scaling": (tr_noop("linear"), tr_noop("none")),
    "unit": (tr_noop("auto"), tr_noop("epochs"), tr_noop("steps"), tr_noop("minutes"), tr_noop("never")),
}
"""Values that are words, by field."""
NONE = {
    "learning_rate": FROM_RECIPE, "weight_decay": FROM_RECIPE, "gradient_clip": OFF, "patience": OFF,
    "steps_per_epoch": tr_noop("all of the data"), "bucket_mb": tr_noop("PyTorch's 25"),
}  # fmt: skip
"""What None means, by field."""
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
        (tr("After training"), [*_rows(spec.release, ReleaseWatch(), RELEASE), *_stop_rows(spec)]),
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


def _rows(values: object, usual: object, labels: Mapping[str, str]) -> list[SettingRow]:
    """Return the fields of a dataclass as rows, with the default where they differ."""
    known = {item.name for item in fields(values)}  # type: ignore[arg-type]  # always one of our dataclasses
    return [
        SettingRow(
            label=tr(label),
            value=_text(name, getattr(values, name)),
            usual=_text(name, getattr(usual, name)) if getattr(values, name) != getattr(usual, name) else "",
        )
        for name, label in labels.items()
        if name in known
    ]


def _text(name: str, value: object) -> str:
    if value is None:
        return tr(NONE.get(name, tr_noop("none")))
    if isinstance(value, bool):
        return tr("on") if value else tr("off")
    if isinstance(value, float):
        return f"{value:g}"
    if name == "patience":
        return tr_plural("{count} epoch", "{count} epochs", int(str(value)))
    if name in CHOICES and value in CHOICES[name]:
        return tr(str(value))
    return str(value) or tr("(empty)")


def _training_groups(spec: RunSpec) -> Iterator[tuple[str, list[SettingRow]]]:
    left_out = {
        *(() if spec.framework == "pytorch" else ("loader_workers",)),
        *(() if spec.framework != "keras" else ("steps_per_epoch",)),
        *(() if spec.training.rate_scaling != "none" else ("reference_batch",)),
        *without_meaning(spec.framework, spec.strategy),
    }
    shown = {name: label for name, label in TRAINING.items() if name not in left_out}
    recipe = _recipe_now(spec)
    rate = recipe.learning_rate if recipe is not None else None  # a run keeps the rate that it found in the recipe
    rows = _rows(spec.training, Training(learning_rate=rate), shown)
    if scaled := rate_arithmetic(spec.training):
        rows.append(SettingRow(label=tr("Scaled learning rate"), value=scaled, usual=tr("not scaled")))
    yield tr("Training"), rows
    yield tr("Recipe"), _recipe_rows(spec, recipe)
    counted = spec.checkpoints.unit not in {"auto", "never"}
    labels = {name: label for name, label in CHECKPOINTS.items() if name != "every" or counted}
    yield tr("Checkpoints"), _rows(spec.checkpoints, Checkpoints(), labels)


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
            value=_text(name, value),
            usual=_text(name, usual[name]) if name in usual and usual[name] != value else "",
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
    usual = StopTimeouts() if spec.script is None else StopTimeouts(interrupt_s=INTERRUPT_S)
    return _rows(spec.stop_timeouts, usual, STOPPING)


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
        yield SettingRow(label=tr("GPU names"), value=tr("by UUID") if spec.cuda_ids == "uuid" else tr("by number"))
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
