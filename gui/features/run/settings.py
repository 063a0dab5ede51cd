"""The tab Settings: what a run was trained with."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QScrollArea, QToolButton, QWidget

from core.catalog import recipes
from core.catalog.frameworks import framework_title
from core.catalog.recipes import RecipeFile
from core.catalog.strategies import strategy_title
from core.config.presets import repeat_line, secret_names
from core.config.validation import rate_arithmetic, without_meaning
from core.language import tr, tr_noop
from core.runs.facts import RunFacts, part_sentences
from core.schema.event_kinds import Source
from core.schema.setting import settings_of
from core.schema.settings import COUNTED, Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.schema.spec import RunSpec
from core.text import join_names
from gui.base.formatting import setting_title
from gui.base.theme import mark
from gui.widgets.buttons import give_menu_below
from gui.widgets.context_menu import add_action
from gui.widgets.layouts import grid, hbox, scroll_down, vbox
from gui.widgets.plain_text import PlainLabel, monospaced, named
from gui.widgets.table import empty_label

HIDDEN = tr_noop("hidden")
"""In the place of a value that looks like a secret."""
SCRIPT_PACKAGES = ("torch", "tensorflow", "keras", "jax", "numpy", "lightning", "transformers", "accelerate")
"""Packages whose versions are shown if they are installed: of a recipe's framework too."""


class SettingRow(NamedTuple):
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
            for row in group.rows:
                default = f" {tr('(default: {value})', value=row.usual)}" if row.usual else ""
                lines.append(f"  {row.label}: {row.value}{default}")
            lines.append("")
        return "\n".join([*lines, *([tr("Command"), f"  {self.command}", ""] if self.command else [])])


def run_settings(spec: RunSpec, facts: RunFacts, labels: Mapping[str, str], run_dir: str) -> RunSettings:
    """Return what a run was trained with. `labels`: names of devices by id."""
    if spec.imported:
        rows = SettingRow(tr("Imported from"), spec.imported), SettingRow(tr("Run folder"), run_dir)
        return RunSettings(groups=(SettingGroup(title=tr("Folders"), rows=rows, is_wide=True),), command="")
    named = [*_training_groups(spec)] if spec.script is None else [*_script_groups(spec)]
    hidden = {name for name, row in settings_of(StopTimeouts).items() if not row.is_for(spec.framework)}
    stop = setting_rows(spec.stop_timeouts, StopTimeouts.usual(is_script=spec.script is not None), hidden)
    named.append((tr("After training"), [*setting_rows(spec.release, ReleaseWatch()), *stop]))
    changed = [row for _, rows in named for row in rows if row.usual]
    parts = part_sentences(facts.parts.values(), labels)
    groups = [
        SettingGroup(title=tr("Changed from the defaults"), rows=tuple(changed)),
        SettingGroup(title=tr("Where"), rows=tuple(_where(spec, labels))),
        SettingGroup(title=tr("Parts of the model"), rows=tuple(starmap(SettingRow, parts)), is_wide=True),
        SettingGroup(title=tr("Software"), rows=tuple(_software(facts))),
        *(SettingGroup(title=title, rows=tuple(row for row in rows if not row.usual)) for title, rows in named),
        SettingGroup(title=tr("Folders"), rows=tuple(_folders(spec, run_dir)), is_wide=True),
    ]
    return RunSettings(groups=tuple(group for group in groups if group.rows), command=repeat_line(spec))


def setting_rows(values: object, usual: object, left_out: Collection[str] = ()) -> list[SettingRow]:
    """Return the settings of a dataclass as rows, with the default where they differ."""
    rows = []
    for name, row in settings_of(type(values)).items():
        if name not in left_out:
            value, default = getattr(values, name), getattr(usual, name)
            rows.append(SettingRow(tr(row.title), row.words(value), row.words(default) if value != default else ""))
    return rows


def _text(value: object) -> str:
    if value is None:
        return tr("none")
    if isinstance(value, bool):
        return tr("on") if value else tr("off")
    return f"{value:g}" if isinstance(value, float) else str(value) or tr("(empty)")


def _training_groups(spec: RunSpec) -> Iterator[tuple[str, list[SettingRow]]]:
    left_out = {*without_meaning(spec.framework, spec.strategy)}
    left_out |= {"reference_batch"} if spec.training.rate_scaling == "none" else set()
    recipe = _recipe_now(spec)
    rate = recipe.learning_rate if recipe is not None else None  # a run keeps the rate that it found in the recipe
    rows = setting_rows(spec.training, Training(learning_rate=rate), left_out)
    if scaled := rate_arithmetic(spec.training):
        rows.append(SettingRow(tr("Scaled learning rate"), scaled, tr("not scaled")))
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
    rows = []
    for name, value in spec.own_recipe.settings.items():
        default = _text(usual[name]) if name in usual and usual[name] != value else ""
        rows.append(SettingRow(setting_title(name), _text(value), default))
    return rows


def _script_groups(spec: RunSpec) -> Iterator[tuple[str, list[SettingRow]]]:
    script = spec.script
    assert script is not None
    arguments = shlex.join(script.arguments)
    rows = [SettingRow(tr("Arguments"), arguments or tr("none"))]
    if script.rules:
        rows.append(SettingRow(tr("Rules for the log"), "\n".join(script.rules)))
    if script.expression:
        rows.append(SettingRow(tr("Log pattern"), script.expression))
    rows += [row for row in setting_rows(spec.training, Training()) if row.usual]
    yield tr("Script"), rows
    secret = dict.fromkeys(secret_names(spec), tr(HIDDEN))
    variables = [SettingRow(each, secret.get(each, text or tr("(empty)"))) for each, text in script.environment.items()]
    variables += [SettingRow(name, tr("from the environment at the start")) for name in script.inherited]
    yield tr("Variables"), variables


def _where(spec: RunSpec, labels: Mapping[str, str]) -> Iterator[SettingRow]:
    if title := framework_title(spec.framework):
        yield SettingRow(tr("Framework"), title)
    yield SettingRow(tr("Strategy"), strategy_title(spec))
    yield SettingRow(tr("Devices"), join_names(labels.get(each, each) for each in spec.devices))
    if any(not each.startswith("cpu:") for each in spec.devices):
        yield from setting_rows(spec, replace(spec, cuda_ids="uuid"))
    if spec.allow_open_ports:
        yield SettingRow(tr("Open ports"), tr("allowed"))


def _software(facts: RunFacts) -> Iterator[SettingRow]:
    software = facts.software
    if software is not None:
        yield SettingRow("Python", software.version)
        installed = {name.lower().replace("_", "-"): version for name, version in software.packages.items()}
        for name in SCRIPT_PACKAGES:
            if name in installed:
                yield SettingRow(name, installed[name])
        if software.trainyard:
            yield SettingRow("Trainyard", software.trainyard)
        yield SettingRow(tr("Packages"), tr("{count} installed", count=len(software.packages)))
    if facts.source is not None:
        yield SettingRow(tr("Git commit"), _commit(facts.source))


def _commit(source: Source) -> str:
    parts = [source.commit[:12] or tr("no commit yet")]
    parts += [tr("branch {branch}", branch=source.branch)] if source.branch else []
    parts += [tr("with uncommitted changes")] if source.changed else [tr("nothing uncommitted")]
    return tr(", ").join(parts)


def _folders(spec: RunSpec, run_dir: str) -> Iterator[SettingRow]:
    workload = spec.own_recipe.path if spec.script is None else spec.script.path or f"python -m {spec.script.module}"
    yield SettingRow(tr("Recipe") if spec.script is None else tr("Script"), workload)
    yield SettingRow("Python", spec.python)
    yield SettingRow(tr("Working folder"), spec.working_dir)
    yield SettingRow(tr("Run folder"), run_dir)


LETTERS_PER_COLUMN = 36
MAX_COLUMNS = 4


class SettingsView(QScrollArea):
    """Shows the settings of one run. `controls` is laid out in the heading of the card."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "settingsView", tr("Settings of the run"))
        scroll_down(self, by_keys=True)
        self.shown: RunSettings | None = None
        self._columns = 0
        self._empty = ""
        self.controls = named(QToolButton(), "settingsCopyButton", tr("Copy the settings"))
        self.controls.setToolTip(tr("Copy all settings as text, or the command that starts the same run"))
        menu = give_menu_below(self.controls, tr("Copy"), "settingsCopyMenu")
        self.copy_text = add_action(menu, tr("All settings as text"))
        self.copy_command = add_action(menu, tr("Command that starts the same run"))
        self._fill()

    def show_settings(self, settings: RunSettings | None, empty: str) -> None:
        """Show these settings; None shows the sentence `empty` instead."""
        if (settings, empty) != (self.shown, self._empty):
            self.shown, self._empty = settings, empty
            self._fill()
        self.controls.setEnabled(settings is not None)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Use as many columns as there is room for."""
        super().resizeEvent(event)
        if self._column_count() != self._columns:
            self._fill()

    def _column_count(self) -> int:
        column_px = LETTERS_PER_COLUMN * self.fontMetrics().averageCharWidth()
        return max(1, min(self.viewport().width() // column_px, MAX_COLUMNS))

    def _fill(self) -> None:
        self._columns = self._column_count()
        content = QWidget()
        layout = vbox(content, gap=10, margins=(9, 6, 9, 6))
        if self.shown is None:
            layout.addWidget(empty_label(self._empty))
        else:
            narrow = [group for group in self.shown.groups if not group.is_wide]
            wide = [group for group in self.shown.groups if group.is_wide]
            _add_columns(layout, narrow, self._columns)
            _add_columns(layout, wide, 1)
            if self.shown.command:
                layout.addWidget(_command(self.shown.command))
        layout.addStretch(1)
        self.setWidget(content)


def _add_columns(layout: QBoxLayout, groups: list[SettingGroup], count: int) -> None:
    """Add groups in columns of about the same height, in their order."""
    beside = hbox(layout, gap=24)
    heights = [len(group.rows) + 2 for group in groups]
    share = sum(heights) / max(count, 1)
    columns: list[list[SettingGroup]] = [[] for _ in range(count)]
    filled = 0.0
    for group, height in zip(groups, heights, strict=True):
        columns[min(int((filled + height / 2) / share), count - 1)].append(group)
        filled += height
    for place, column in enumerate(columns):
        vbox(beside, *map(_group, column), 0, gap=10)
        beside.setStretch(place, 1)


def _group(group: SettingGroup) -> QWidget:
    widget = QWidget()
    rows = grid(widget)
    rows.addWidget(PlainLabel(group.title, role="heading"), 0, 0, 1, 2)
    for number, row in enumerate(group.rows, 1):
        label = PlainLabel(row.label, role="muted")
        label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        rows.addWidget(label, number, 0)
        rows.addWidget(_value(row), number, 1)
    return widget


def _value(row: SettingRow) -> PlainLabel:
    text = tr("{value}  (default {usual})", value=row.value, usual=row.usual) if row.usual else row.value
    value = PlainLabel(text, wraps=True, selectable=True)
    value.setAccessibleName(f"{row.label}: {value.text()}")
    value.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
    if row.usual:
        mark(value, tone="accent")
    return value


def _command(command: str) -> PlainLabel:
    label = PlainLabel(command, name="settingsCommand", wraps=True, selectable=True)
    label.setAccessibleName(tr("Command that starts the same run"))
    monospaced(label)
    return label
