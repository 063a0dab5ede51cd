"""Commands that only tell: devices, catalog, recipes, runs, show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core import catalog, recipes, report, runs
from core.answers import release_lines, say, say_json, say_rows, short, warn
from core.commands.common import find, survey
from core.state import row
from core.units import BYTES_PER_MB

if TYPE_CHECKING:
    from argparse import Namespace


def devices(options: Namespace) -> int:
    """What can be trained on."""
    found = survey()
    samples = {sample.device_id: sample for sample in found.samples}
    rows = []
    for device in found.devices:
        sample = samples.get(device.id)
        rows.append({
            "id": device.id, "kind": device.kind, "label": device.label, "name": device.name,
            "memory_total_bytes": device.memory_total_bytes, "pci_bus_id": device.pci_bus_id,
            "minor": device.minor, "cores": list(device.cores), "shared_memory": device.shared_memory,
            "utilisation_percent": sample.utilisation_percent if sample else None,
            "memory_used_bytes": sample.memory_used_bytes if sample else None,
            "asleep": sample.asleep if sample else None,
            "lost": sample.lost if sample else None,
            "blocked": device.blocked,
        })  # fmt: skip
    if found.banner:
        warn(found.banner)
    return say_rows(options, rows, ("id", "label", "name", "lost", "blocked"))


def show_catalog(options: Namespace) -> int:
    """Every framework and strategy there is."""
    rows = [
        {
            "framework": cell.framework, "strategy": cell.strategy, "title": cell.title, "summary": cell.summary,
            "parallel": cell.parallel,
            "missing": None if catalog.is_installed(catalog.framework(cell.framework)) else "not installed",
            "unavailable": cell.unavailable() or None,
            "devices": {"least": cell.least_devices, "most": cell.most_devices, "kinds": list(cell.device_kinds)},
        }
        for cell in catalog.CELLS
    ]  # fmt: skip
    people = [{**each, "missing": each["missing"] or ("unavailable" if each["unavailable"] else None)} for each in rows]
    return say_rows(options, rows if options.json else people, ("framework", "strategy", "missing", "summary"))


def show_recipes(options: Namespace) -> int:
    """The workloads that ship."""
    rows = [
        {
            "name": recipe.name, "framework": framework.id, "path": str(recipe.path), "summary": recipe.summary,
            "settings": {setting.name: setting.default for setting in recipe.settings},
            "learning_rate": recipe.learning_rate,
        }
        for framework in catalog.FRAMEWORKS
        for recipe in recipes.built_in(framework.id)
    ]  # fmt: skip
    return say_rows(options, rows, ("name", "framework", "summary"))


def list_runs(options: Namespace) -> int:
    """All runs, newest first."""
    rows = [
        {
            "run": each.dir.name, "dir": str(each.dir), "name": each.name, "state": each.state.value,
            "started": each.started, "ended": each.ended, "step": each.step, "loss": each.last_loss,
            "error": each.error,
        }
        for each in runs.Index(options.runs).poll()
    ]  # fmt: skip
    return say_rows(options, rows, ("run", "state", "loss"))


def show(options: Namespace) -> int:
    """What a run came to."""
    found = find(options)
    document = report.document(found, report.read_all(found))
    if options.json:
        say_json(document)
        return 0
    spec = found.spec()
    say(f"{found.id}: {row(found.facts.state).label.lower()}, {found.facts.step} steps")
    say(f"  {spec.framework} {spec.strategy} on {', '.join(spec.devices)}, recipe {spec.recipe.path}")
    for name, values in document["metrics"].items():
        say(f"  {name}: last {short(values['last'])}, least {short(values['min'])}, {values['count']} values")
    for each in document["checkpoints"]:
        written = f"{each['bytes'] / BYTES_PER_MB:.1f} MB ({short(each['reason'])})"
        say(f"  checkpoint {each['name']}: step {each['step']}, {written}")
    for line in release_lines(found.facts):
        say(f"  {line}")
    for sentence in (found.facts.error, *found.facts.notices):
        if sentence:
            say(f"  {sentence}")
    return 0
