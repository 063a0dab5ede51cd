"""All commands and their parser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.cli.commands import (
    check,
    control,
    curves,
    desktop,
    hosts,
    listing,
    machine,
    notify,
    remove,
    results,
    scale,
    start,
)
from core.cli.options import Parser, add_detach, add_host, add_open_ports, add_run_options, add_yes, common
from core.cli.run_options import add_queue_options
from core.cli.runs import RUN
from core.language import tr

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    Command = Callable[[argparse.Namespace], int]
    AddOptions = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True, slots=True)
class _Row:
    """One command."""

    name: str
    function: Command
    adders: tuple[AddOptions, ...] = ()
    of_run: bool = False
    """Whether its first argument is a run."""


COMMANDS = (
    _Row("devices", machine.devices, (machine.add_watch,)),
    _Row("catalog", machine.show_catalog),
    _Row("recipes", machine.show_recipes, (machine.add_copy,)),
    _Row("pythons", machine.pythons, (machine.add_near,)),
    _Row("check", check.check, (check.add_options,)),
    _Row("fit", check.fit, (check.add_fit_options,)),
    _Row("run", start.run, (add_run_options, add_queue_options, add_yes)),
    _Row("queue", control.queue, (control.add_queue_actions,)),
    _Row("runs", listing.list_runs, (listing.add_search,)),
    _Row("show", listing.show, (listing.add_events,), of_run=True),
    _Row("why-slow", listing.why_slow, of_run=True),
    _Row("log", listing.log, (listing.add_log,), of_run=True),
    _Row("compare", results.compare_runs, (results.add_compare_options,)),
    _Row("scale", scale.scale, (scale.add_options,)),
    _Row("rename", listing.rename_run, (listing.add_name,), of_run=True),
    _Row("mark", listing.mark_run, (listing.add_marks,), of_run=True),
    _Row("attach", start.attach, of_run=True),
    _Row("stop", control.stop, (control.add_force,), of_run=True),
    _Row("doctor", control.doctor, (control.add_stacks, add_yes), of_run=True),
    _Row("pause", control.pause, of_run=True),
    _Row("resume", start.resume, (start.add_move, add_detach, add_yes, add_open_ports), of_run=True),
    _Row("again", start.again, (add_detach, add_yes, add_open_ports), of_run=True),
    _Row("save", control.save, of_run=True),
    _Row("set", control.change, (control.add_changes,), of_run=True),
    _Row("trace", control.trace, (control.add_traced,), of_run=True),
    _Row("try", curves.try_expression, (curves.add_expression,), of_run=True),
    _Row("reread", curves.reread, of_run=True),
    _Row("command", start.command, of_run=True),
    _Row("keep", start.keep, (start.add_preset_name, add_yes), of_run=True),
    _Row("setups", start.list_presets),
    _Row("export", results.export, (results.add_export_options, add_yes)),
    _Row("import", curves.import_paths, (curves.add_paths,)),
    _Row("report", results.write_report, (results.add_report_options,)),
    _Row("sweep", remove.sweep, (remove.add_sweep_options,)),
    _Row("remove", remove.remove, (remove.add_options,)),
    _Row("hosts", hosts.hosts, (hosts.add_options,)),
    _Row("agent", hosts.agent, (hosts.add_stdio,)),
    _Row("notify", notify.notify, (notify.add_options,)),
    _Row("desktop", desktop.desktop, (desktop.add_options,)),
)


def command_parser(default: Command) -> Parser:
    """Return the parser of the whole command line. `default`: what runs without a command."""
    shared = common()
    with_json = Parser(add_help=False, parents=[shared])
    with_json.add_argument("--json", action="store_true", help=tr("print one JSON document and nothing else"))
    description = tr("Train on the devices you choose. Without a command, the window opens.")
    parser = Parser(prog="trainyard", description=description, parents=[shared])
    parser.add_argument("--version", action="store_true", help=tr("print the version of Trainyard"))
    add_host(parser)
    parser.set_defaults(command=default, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    for row in COMMANDS:
        summary = tr((row.function.__doc__ or "").strip())
        added = commands.add_parser(row.name, help=summary, description=summary, parents=[with_json])
        added.set_defaults(command=row.function, parser=added)
        if row.of_run:
            added.add_argument("run", metavar="RUN", help=tr(RUN))
        for add_options in row.adders:
            add_options(added)
    return parser
