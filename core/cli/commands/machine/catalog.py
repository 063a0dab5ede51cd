"""The commands `catalog` and `recipes`: what can be trained, and how; copy an included recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.catalog import recipe_copy, recipes
from core.catalog.frameworks import FRAMEWORKS, framework
from core.catalog.strategies import STRATEGIES
from core.cli.output import say, say_json, say_rows
from core.config import validation
from core.language import tr
from core.launchers import loopback
from core.series.export_file import export_bytes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

DEFAULT = FRAMEWORKS[0].id


def show_catalog(options: Namespace) -> int:
    """List the frameworks and strategies, and what is missing to use them."""
    rows = [
        {
            "framework": each.framework, "strategy": each.name, "title": tr(each.title), "summary": tr(each.summary),
            "parallel": each.parallel,
            "missing": None if validation.is_installed(framework(each.framework)) else tr("not installed"),
            "unavailable": each.unavailable() or None,
            "open_ports": (loopback.obstacle(each.name) or None) if each.needs_addresses else None,
            "devices": {"least": each.min_devices, "most": each.max_devices, "kinds": list(each.device_kinds)},
        }
        for each in STRATEGIES
    ]  # fmt: skip
    shown = [
        {**each, "missing": each["missing"] or (tr("unavailable") if each["unavailable"] else None)} for each in rows
    ]
    say_rows(options, rows if options.json else shown, ("framework", "strategy", "missing", "summary"))
    for each in () if options.json else rows:
        if sentence := each["unavailable"] or each["open_ports"]:
            say(f"{each['framework']} {each['strategy']}: {sentence}")
    return 0


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `recipes`."""
    parser.add_argument(
        "--copy", nargs=2, metavar=("NAME", "FILE"),
        help=tr("write a copy of this built-in recipe to a Python file, to be changed and trained"),
    )  # fmt: skip
    parser.add_argument(
        "--framework", default="",
        help=tr("with --copy: the framework of the recipe; default: {default}", default=DEFAULT),
    )  # fmt: skip


def show_recipes(options: Namespace) -> int:
    """List the built-in recipes, or copy one to a file."""
    if options.copy:
        return _copy(options)
    if options.framework:
        raise ValueError(tr("--framework is for --copy only. Leave it out to list all recipes."))
    rows = [
        {
            "name": recipe.name, "framework": row.id, "path": str(recipe.path), "summary": tr(recipe.summary),
            "settings": {setting.name: setting.default for setting in recipe.settings},
            "learning_rate": recipe.learning_rate,
        }
        for row in FRAMEWORKS
        for recipe in recipes.built_in(row.id)
    ]  # fmt: skip
    return say_rows(options, rows, ("name", "framework", "summary"))


def _copy(options: Namespace) -> int:
    name, file = options.copy
    target = Path(file).expanduser().absolute()
    recipe = recipes.find(name, options.framework or DEFAULT)
    recipe_copy.check_copy(recipe, target)
    if target.exists():
        raise ValueError(tr("{path} exists already. Name another file.", path=target))
    export_bytes(recipe_copy.standalone(recipe).encode(), target)
    if options.json:
        say_json({"recipe": recipe.name, "framework": options.framework or DEFAULT, "path": str(target)})
    else:
        say(tr("Copied {name} to {path}. Change it there, and name this file to train it.", name=name, path=target))
    return 0
