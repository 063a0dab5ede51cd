"""The commands `catalog` and `recipes`: what can be trained, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.catalog import recipes
from core.catalog.frameworks import FRAMEWORKS, framework
from core.catalog.strategies import STRATEGIES
from core.cli.output import say, say_rows
from core.config import validation
from core.language import tr
from core.launchers import loopback

if TYPE_CHECKING:
    from argparse import Namespace


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


def show_recipes(options: Namespace) -> int:
    """List the built-in recipes."""
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
