"""Commands that only tell: devices, catalog, recipes, runs, show."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from core.catalog import frameworks, recipes, strategies
from core.cli.commands.common import find, survey
from core.cli.commands.occupancy import DeviceOccupancy, occupancies, people
from core.cli.output import log_of, release_lines, say, say_json, say_rows, short, warn
from core.config import validation
from core.runs import index
from core.runs.states import state_info
from core.series import report
from core.units import BYTES_PER_MB, size

if TYPE_CHECKING:
    from argparse import Namespace

    from core.devices.device import Device, Sample
    from core.schema.spec import RunSpec


def devices(options: Namespace) -> int:
    """What can be trained on."""
    found = survey()
    known = occupancies(found, options.runs)
    samples = {sample.device_id: sample for sample in found.samples}
    rows, shown = [], []
    for device in found.devices:
        sample, there = samples.get(device.id), known.get(device.id, DeviceOccupancy())
        rows.append({
            "id": device.id, "kind": device.kind, "label": device.label, "name": device.name,
            "memory_total_bytes": device.memory_total_bytes, "pci_bus_id": device.pci_bus_id,
            "minor": device.minor, "cores": list(device.cores), "shared_memory": device.shared_memory,
            "utilisation_percent": sample.utilisation_percent if sample else None,
            "memory_used_bytes": sample.memory_used_bytes if sample else None,
            "asleep": sample.asleep if sample else None,
            "lost": sample.lost if sample else None,
            "blocked": device.blocked, "short_name": device.short_name,
            "runs": list(there.runs), "processes": _processes(sample),
        })  # fmt: skip
        shown.append({
            "device": device.short_name, "name": device.name, "memory": _memory(device, sample),
            "utilisation": _percent(sample), "held by": _held_by(there), "note": _note(device, sample),
        })  # fmt: skip
    if found.banner:
        warn(found.banner)
    columns = ("device", "name", "memory", "utilisation", "held by")
    noted = any(each["note"] for each in shown)
    return say_rows(options, rows if options.json else shown, (*columns, "note") if noted else columns)


def _processes(sample: Sample | None) -> list[dict[str, int | None]] | None:
    """As the driver names them; None where it names none because it cannot."""
    if sample is None or sample.processes is None:
        return None
    return [{"pid": each.pid, "memory_used_bytes": each.memory_used_bytes} for each in sample.processes]


def _memory(device: Device, sample: Sample | None) -> str | None:
    used = sample.memory_used_bytes if sample else None
    if device.memory_total_bytes is None:
        return None if used is None else size(used)
    return f"{'-' if used is None else size(used)} of {size(device.memory_total_bytes)}"


def _percent(sample: Sample | None) -> str | None:
    percent = sample.utilisation_percent if sample else None
    return None if percent is None else f"{percent:.0f} %"


def _held_by(there: DeviceOccupancy) -> str | None:
    who = [*(f"run {run_id}" for run_id in there.runs), *([people(there.others)] if there.others else [])]
    return ", ".join(who) or None


def _note(device: Device, sample: Sample | None) -> str | None:
    """Why nothing can be read of it, or it cannot be trained on."""
    asleep = "asleep" if sample and sample.asleep else None
    return (sample.lost if sample else None) or device.blocked or asleep


def show_catalog(options: Namespace) -> int:
    """Every framework and strategy there is."""
    rows = [
        {
            "framework": row.framework, "strategy": row.name, "title": row.title, "summary": row.summary,
            "parallel": row.parallel,
            "missing": None if validation.is_installed(frameworks.framework(row.framework)) else "not installed",
            "unavailable": row.unavailable() or None,
            "devices": {"least": row.min_devices, "most": row.max_devices, "kinds": list(row.device_kinds)},
        }
        for row in strategies.STRATEGIES
    ]  # fmt: skip
    shown = [{**each, "missing": each["missing"] or ("unavailable" if each["unavailable"] else None)} for each in rows]
    columns = ("framework", "strategy", "missing", "summary")
    say_rows(options, rows if options.json else shown, columns)
    for each in () if options.json else rows:
        if each["unavailable"]:
            say(f"{each['framework']} {each['strategy']}: {each['unavailable']}")
    return 0


def show_recipes(options: Namespace) -> int:
    """The workloads that ship."""
    rows = [
        {
            "name": recipe.name, "framework": framework.id, "path": str(recipe.path), "summary": recipe.summary,
            "settings": {setting.name: setting.default for setting in recipe.settings},
            "learning_rate": recipe.learning_rate,
        }
        for framework in frameworks.FRAMEWORKS
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
        for each in index.RunIndex(options.runs).poll()
    ]  # fmt: skip
    if not rows and not options.json:
        warn(f"there are no runs in {options.runs} yet.")
    return say_rows(options, rows, ("run", "state", "step", "loss"))


def _what(spec: RunSpec) -> str:
    """What is trained, how, and on which devices."""
    on = ", ".join(spec.devices)
    if spec.script is None:
        return f"{spec.framework} {spec.strategy} on {on}, recipe {spec.own_recipe.path}"
    how = strategies.strategy_of(spec).title.lower()
    return f"script on {on}, {how}: {shlex.join([spec.python, *spec.script.command])} in {spec.working_dir}"


def show(options: Namespace) -> int:
    """What a run came to."""
    found = find(options)
    document = report.document(found, report.read_all(found))
    if options.json:
        say_json(document)
        return 0
    spec = found.spec()
    say(f"{found.id}: {state_info(found.facts.state).label.lower()}, {found.facts.step} steps")
    say(f"  {_what(spec)}")
    for name, values in document["metrics"].items():
        say(f"  {name}: last {short(values['last'])}, least {short(values['min'])}, {values['count']} values")
    for each in document["checkpoints"]:
        written = f"{each['bytes'] / BYTES_PER_MB:.1f} MB ({short(each['reason'])})"
        say(f"  checkpoint {each['name']}: step {each['step']}, {written}")
    for line in release_lines(found.facts):
        say(f"  {line}")
    for sentence in (found.facts.error, found.facts.stalled, *found.facts.warnings):
        if sentence:
            say(f"  {sentence}")
    if found.facts.error and (where := log_of(found)):
        say(f"  {where}")
    return 0
