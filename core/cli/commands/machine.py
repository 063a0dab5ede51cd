"""The commands `devices`, `catalog`, `recipes` and `pythons`: what trains here and on the known hosts, and what."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from core.catalog import recipes
from core.catalog.frameworks import FRAMEWORKS, framework
from core.catalog.recipes import RecipeFile
from core.catalog.strategies import STRATEGIES, Strategy
from core.cli.commands.control import queue_columns
from core.cli.commands.listing import run_columns
from core.cli.options import INTERRUPTED
from core.cli.output import ONE_DOCUMENT, answer, say, say_json, say_rows, show_screen, warn
from core.cli.runs import survey
from core.config import validation
from core.devices.device import Device, Sample, Survey, full_name
from core.devices.names import shown_name
from core.devices.nvidia.preflight import TIMEOUT_S
from core.devices.sampler import Sampler
from core.errors import RunError
from core.history.device_use import DeviceUse, UseFinder, devices_in_use, first_processes
from core.history.differences import Differences
from core.hosts.host_list import load
from core.language import tr, tr_noop
from core.launchers import loopback
from core.pythons.discovery import FoundPython, PythonSearch
from core.pythons.python_info import REMEDY, Package, PythonInfo
from core.queue.listing import QueueView, queue_view
from core.runs.facts import state_info
from core.series.report import export_bytes
from core.table import Column, Table
from core.text import size

if TYPE_CHECKING:
    from core.hosts.host_list import Host
    from core.hosts.inquiry import HostReport
    from core.hosts.protocol import HostDevices


WATCH_S = 1.0
"""Seconds between two screens."""
UNASKED = "host"
"""The kind of what stands for a host that cannot be asked."""


class Shown(NamedTuple):
    """A device, and what uses it."""

    name: str
    device: Device
    sample: Sample | None
    runs: Sequence[str]
    others: Sequence[str]
    """Other processes, the one with the most memory first."""
    host: str = ""


def add_watch(parser: ArgumentParser) -> None:
    words = tr("show the list again every second, with the runs that train and your queue, until Ctrl-C")
    parser.add_argument("--watch", action="store_true", help=words)


def devices(options: Namespace) -> int:
    """List the devices of this machine and of the known hosts, how busy they are, and what uses them."""
    listed = load()
    if listed.problem:
        warn(listed.problem)
    if options.watch:
        return _watch(options, listed.hosts)
    if not listed.hosts:
        shown = _local(options)
    else:
        from core.hosts.inquiry import Inquiry  # only where there are hosts

        with Inquiry(listed.hosts, devices=True) as inquiry:
            shown = _local(options)
            for report in inquiry.reports():
                shown += _remote(report)
    if options.json:
        say_json([_row(each) for each in shown])
        return 0
    return say_rows(options, DEVICE_COLUMNS, [each for each in shown if each.device.kind != UNASKED])


def _watch(options: Namespace, hosts: Sequence[Host]) -> int:
    """Show devices, live runs and queue again and again."""
    if options.json:
        raise ValueError(tr(ONE_DOCUMENT, option="--watch"))
    from core.hosts.inquiry import HostWatch

    watches, finder, differences = [HostWatch(host) for host in hosts], UseFinder(options.runs), Differences()
    for watch in watches:
        watch.begin()
    with contextlib.suppress(KeyboardInterrupt), Sampler() as sampler:
        found = sampler.survey(TIMEOUT_S)
        if sys.stdout.isatty():
            sys.stdout.write("\n" * shutil.get_terminal_size().lines)  # keep what is there, out of sight
        while True:
            shown = _here(found, finder.find(found))
            notes = [tr(found.banner)] if found.banner else []
            for state in (watch.state for watch in watches):
                uses = {full_name(state.host.name, name): use for name, use in state.uses.by_device.items()}
                shown += _listed(state.survey, {name: (use.runs, use.others) for name, use in uses.items()})
                notes += [tr(str(each)) for each in (state.error, state.survey.banner) if each]
            differences.follow(finder.summaries)
            live = [each for each in finder.summaries if state_info(each.state).live]
            waiting = [each for each in finder.summaries if state_info(each.state).waits]
            words = {each.dir.name: differences.words(each) for each in waiting}
            try:
                queue = queue_view(options.runs)
            except RunError as error:
                queue = QueueView(troubles=(str(error),))
            notes += [*queue.troubles, *([queue.held] if queue.held else [])]
            runs, queued = Table(run_columns(live, differences), live), Table(queue_columns(words), queue.runs)
            show_screen((Table(DEVICE_COLUMNS, shown), runs, queued), notes)
            time.sleep(WATCH_S)
            found = sampler.poll()
    for watch in watches:
        watch.end()
    if sys.stdout.isatty():
        say("")  # the shell goes on below the last screen
    return INTERRUPTED


def _local(options: Namespace) -> list[Shown]:
    found = survey()
    if found.banner:
        warn(tr(found.banner))
    return _here(found, devices_in_use(found, options.runs))


def _here(found: Survey, uses: Mapping[str, DeviceUse]) -> list[Shown]:
    words = {name: ([run.dir.name for run in use.runs], [each.words for each in use.others])
             for name, use in uses.items()}
    return _listed(found, words)


def _remote(report: HostReport) -> list[Shown]:
    """Return the devices of a host. A host that cannot be asked stands for a lost device, which says why."""
    host, found = report.host, report.devices
    if found is None:
        warn(str(report.error))
        place = Device(id=host.name, kind=UNASKED, label=host.name, name=host.address, blocked=str(report.error))
        return [Shown(place.short_name, place, None, (), (), host.name)]
    if found.banner:
        warn(tr("{name}: {reason}", name=host.name, reason=tr(found.banner)))
    return _listed(found, {name: (use.runs, use.others) for name, use in found.uses.items()}, host.name)


def _listed(
    found: Survey | HostDevices, uses: Mapping[str, tuple[Sequence[str], Sequence[str]]], host: str = ""
) -> list[Shown]:
    """Return devices with their readings. `uses`: by device id the runs and other processes on it."""
    samples = {sample.device_id: sample for sample in found.samples}
    return [
        Shown(full_name(host, each.short_name) if host else each.short_name, each, samples.get(each.id),
              *uses.get(each.id, ((), ())), host)
        for each in found.devices
    ]


def _row(shown: Shown) -> dict[str, Any]:
    """Return a device and its reading, for programs."""
    device, sample, host = shown.device, shown.sample, shown.host
    is_asked = device.kind != UNASKED
    return {
        "id": full_name(host, device.id) if host and is_asked else device.id, "kind": device.kind,
        "label": device.label, "name": device.name,
        "memory_total_bytes": device.memory_total_bytes, "pci_bus_id": device.pci_bus_id,
        "minor": device.minor, "cores": list(device.cores), "shared_memory": device.shared_memory,
        "utilisation_percent": sample.utilisation_percent if sample else None,
        "memory_used_bytes": sample.memory_used_bytes if sample else None,
        "temperature_celsius": sample.temperature_celsius if sample else None,
        "power_watts": sample.power_watts if sample else None,
        "power_limit_watts": sample.power_limit_watts if sample else None,
        "asleep": sample.asleep if sample else None,
        "lost": (sample.lost if sample else None) if is_asked else device.blocked,
        "blocked": device.blocked, "fault": sample.fault if sample else None, "short_name": shown.name,
        "runs": list(shown.runs), "processes": _processes(sample), **({"host": host} if host else {}),
    }


def _processes(sample: Sample | None) -> list[dict[str, int | None]] | None:
    """Return the processes that the driver lists; None if it cannot list any."""
    if sample is None or sample.processes is None:
        return None
    return [{"pid": each.pid, "memory_used_bytes": each.memory_used_bytes} for each in sample.processes]


def _users(shown: Shown) -> list[str]:
    runs = [tr("run {dir}", dir=each) for each in shown.runs]
    return [*runs, first_processes(shown.others)] if shown.others else runs


def _memory(device: Device, sample: Sample | None) -> str | None:
    used = sample.memory_used_bytes if sample else None
    if device.memory_total_bytes is None:
        return None if used is None else size(used)
    return tr("{used} of {memory_total_bytes}", used="-" if used is None else size(used),
              memory_total_bytes=size(device.memory_total_bytes))


def _percent(sample: Sample | None) -> str | None:
    percent = sample.utilisation_percent if sample else None
    return None if percent is None else f"{percent:.0f} %"


def _temperature(sample: Sample | None) -> str | None:
    degrees = sample.temperature_celsius if sample else None
    return None if degrees is None else f"{degrees:.0f} °C"


def _power(sample: Sample | None) -> str | None:
    if sample is None or sample.power_watts is None:
        return None
    if not sample.power_limit_watts:
        return f"{sample.power_watts:.0f} W"
    return tr("{power:.0f} of {limit:.0f} W", power=sample.power_watts, limit=sample.power_limit_watts)


def _note(device: Device, sample: Sample | None) -> str | None:
    """Return why the device cannot be read or used for training, or what is wrong with it."""
    if why := (sample.lost if sample else None) or device.blocked or (sample.fault if sample else None):
        return tr(why)
    return tr("asleep") if sample and sample.asleep else None


DEVICE_COLUMNS: tuple[Column[Shown], ...] = (
    Column("device", text=lambda each: each.name),
    Column("name", text=lambda each: shown_name(each.device.name)),
    Column("memory", text=lambda each: _memory(each.device, each.sample)),
    Column("utilisation", text=lambda each: _percent(each.sample)),
    Column("temperature", text=lambda each: _temperature(each.sample), is_optional=True),
    Column("power", text=lambda each: _power(each.sample), is_optional=True),
    Column("held by", text=lambda each: ", ".join(_users(each)) or None),
    Column("note", text=lambda each: _note(each.device, each.sample), is_optional=True),
)


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
    Column("missing", _missing,
           text=lambda each: _missing(each) or (tr("unavailable") if each.unavailable() else None)),
    Column("summary", lambda each: tr(each.summary)),
    Column("parallel", lambda each: each.parallel, None),
    Column("unavailable", lambda each: each.unavailable() or None, None),
    Column("open_ports", _port_obstacle, None),
    Column("devices",
           lambda each: {"least": each.min_devices, "most": each.max_devices, "kinds": list(each.device_kinds)}, None),
)


def add_copy(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--copy", nargs=2, metavar=("NAME", "FILE"),
        help=tr("write a copy of this built-in recipe to a Python file, to be changed and trained"),
    )
    parser.add_argument(
        "--framework", default="",
        help=tr("with --copy: the framework of the recipe; default: {default}", default=DEFAULT),
    )


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
    recipes.check_copy(recipe, target)
    if target.exists():
        raise ValueError(tr("{path} exists already. Name another file.", path=target))
    export_bytes(recipes.standalone(recipe).encode(), target)
    done = tr("Copied {name} to {path}. Change it there, and name this file to train it.", name=name, path=target)
    return answer(
        options, {"recipe": recipe.name, "framework": options.framework or DEFAULT, "path": str(target)}, done
    )


CUDA = {True: tr_noop(", CUDA"), False: tr_noop(", no CUDA"), None: ""}


def add_near(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--near", type=Path, metavar="DIR",
        help=tr("also search for environments in this folder, or next to this script; default: the current folder"),
    )


def pythons(options: Namespace) -> int:
    """List the Pythons of this machine, and the frameworks that each has."""
    entries = _search(options.near)
    say_rows(options, PYTHON_COLUMNS, entries)
    for each in () if options.json else entries:
        if each.problem:
            say(each.problem.removesuffix(tr(REMEDY)).rstrip())  # it names this command
    return 0


def _search(near: Path | None) -> list[FoundPython]:
    """Return all Pythons. Raises `ValueError` with a sentence if there is no file or folder `near`."""
    if near is not None and not near.exists():
        raise ValueError(tr("There is no file or folder {near}. Name a folder or a script.", near=near))
    search = PythonSearch()
    search.start(near or Path())
    return search.wait()


def _of_info(name: str, value: Callable[[PythonInfo], object], title: str | None = None) -> Column[FoundPython]:
    return Column(name, lambda each: value(each.info) if each.info else None, title)


def _framework(name: str) -> Column[FoundPython]:
    """Return a column that says for people `2.6.0, CUDA` for version `2.6.0+cu124`."""

    def package(entry: FoundPython) -> Package | None:
        return getattr(entry.info, name, None)

    def text(entry: FoundPython) -> str | None:
        found = package(entry)
        return None if found is None else (found.version or tr("yes")).partition("+")[0] + tr(CUDA[found.cuda])

    return Column(name, lambda each: (found := package(each)) and {"version": found.version, "cuda": found.cuda},
                  text=text)


PYTHON_COLUMNS: tuple[Column[FoundPython], ...] = (
    _of_info("version", lambda info: ".".join(map(str, info.version)), "python"),
    *map(_framework, ("torch", "tensorflow", "keras")),
    Column("place", lambda each: each.found.place, text=lambda each: tr(each.found.title)),
    Column("path", lambda each: each.found.path),
    _of_info("implementation", lambda info: info.implementation or None),
    _of_info("prefix", lambda info: info.prefix or None),
    Column("problem", lambda each: each.problem or None, None),
)
