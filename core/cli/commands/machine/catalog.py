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
from core.series.report import export_bytes
from core.table import Column

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.catalog.recipes import RecipeFile
    from core.catalog.strategies import Strategy

DEFAULT = FRAMEWORKS[0].id


def show_catalog(options: Namespace) -> int:
    """List the frameworks and strategies, and what is missing to use them."""
    say_rows(options, STRATEGY_COLUMNS, STRATEGIES)
    for each in () if options.json else STRATEGIES:
        if sentence := each.unavailable() or _port_obstacle(each):
            say(f"{each.framework} {each.name}: {sentence}")
    return 0


def _missing(strategy: Strategy) -> str | None:
    return None if validation.is_installed(framework(strategy.framework)) else tr("not installed")


def _port_obstacle(strategy: Strategy) -> str | None:
    return (loopback.obstacle(strategy.name) or None) if strategy.needs_addresses else None


STRATEGY_COLUMNS: tuple[Column[Strategy], ...] = (
    Column("framework", lambda each: each.framework),
    Column("strategy", lambda each: each.name),
    Column("title", lambda each: tr(each.title), None),
    Column(
        "missing", _missing, text=lambda each: _missing(each) or (tr("unavailable") if each.unavailable() else None)
    ),
    Column("summary", lambda each: tr(each.summary)),
    Column("parallel", lambda each: each.parallel, None),
    Column("unavailable", lambda each: each.unavailable() or None, None),
    Column("open_ports", _port_obstacle, None),
    Column(
        "devices",
        lambda each: {"least": each.min_devices, "most": each.max_devices, "kinds": list(each.device_kinds)},
        None,
    ),
)


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
    return say_rows(
        options, RECIPE_COLUMNS, [(row.id, each) for row in FRAMEWORKS for each in recipes.built_in(row.id)]
    )


RECIPE_COLUMNS: tuple[Column[tuple[str, RecipeFile]], ...] = (
    Column("name", lambda each: each[1].name),
    Column("framework", lambda each: each[0]),
    Column("path", lambda each: str(each[1].path), None),
    Column("summary", lambda each: tr(each[1].summary)),
    Column("settings", lambda each: {setting.name: setting.default for setting in each[1].settings}, None),
    Column("learning_rate", lambda each: each[1].learning_rate, None),
)


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
