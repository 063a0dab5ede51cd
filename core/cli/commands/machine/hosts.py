"""The command `hosts`: list, add and remove other machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.cli.output import say, say_json, say_rows, warn
from core.errors import RunError
from core.hosts import host_list
from core.hosts.names import full_name
from core.language import join_sentences, tr
from core.text import first_names, join_names

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


ADD, REMOVE = "add", "remove"
ACTIONS = (ADD, REMOVE)


def add_options(parser: ArgumentParser) -> None:
    """Add the arguments of `hosts`."""
    add = parser.add_argument
    add(
        "action", nargs="?", metavar="ACTION", choices=ACTIONS,
        help=tr("add ADDRESS, or remove NAME; without one, the hosts are listed and asked whether they answer"),
    )  # fmt: skip
    add(
        "host", nargs="?", metavar="ADDRESS|NAME",
        help=tr("USER@HOST, ssh://USER@HOST:PORT, or a name of ~/.ssh/config; for remove: the name of the host"),
    )  # fmt: skip
    add("--name", help=tr("for add: the name of the host here; default: the first part of its address"))
    add(
        "--command", dest="remote_command", metavar="LINE",
        help=tr("for add: what starts Trainyard there, such as ~/trainyard/.venv/bin/trainyard; default: trainyard"),
    )  # fmt: skip


def hosts(options: Namespace) -> int:
    """List other machines and whether they answer, or add or remove one."""
    _check(options)
    if options.action == ADD:
        return _add(options)
    if options.action == REMOVE:
        return _remove(options)
    listed = host_list.load()
    if listed.problem:
        warn(listed.problem)
    if not listed.hosts:
        if options.json:
            say_json([])
        else:
            warn(tr("No host has been added. Add one: trainyard hosts add USER@HOST"))
        return 0
    from core.hosts.inquiry import ask, report_document, state_words  # only where there are hosts

    reports = ask(listed.hosts, devices=False)
    if options.json:
        return say_rows(options, [report_document(each) for each in reports], ())
    rows = [{"name": each.host.name, "address": each.host.address, "state": state_words(each)} for each in reports]
    return say_rows(options, rows, ("name", "address", "state"))


def _check(options: Namespace) -> None:
    if options.action is not None and options.host is None:
        missing = tr("The address is missing: trainyard hosts add USER@HOST")
        raise ValueError(missing if options.action == ADD else tr("The name is missing: trainyard hosts remove NAME"))
    if options.action != ADD and (options.name is not None or options.remote_command is not None):
        raise ValueError(tr("--name and --command are for `hosts add`. Leave them out."))


def _add(options: Namespace) -> int:
    from core.hosts.carriers.registry import carrier_of

    carrier = carrier_of(options.host)
    if problem := carrier.address_problem(options.host):
        raise ValueError(problem)
    name = carrier.default_name(options.host) if options.name is None else options.name
    command = host_list.COMMAND if options.remote_command is None else options.remote_command
    host = host_list.Host(name=name, address=options.host, command=command)
    host_list.check_new(host, host_list.load())
    from core.hosts.inquiry import ask, report_document, state_words

    (report,) = ask([host], devices=True)
    if report.error is not None:
        raise RunError(join_sentences([str(report.error), tr("The host was not added.")]))
    host_list.add(host)
    if options.json:
        say_json(report_document(report))
        return 0
    if report.clock_problem:
        warn(report.clock_problem)
    found = report.devices.devices if report.devices else ()
    names = first_names([full_name(host.name, device.short_name) for device in found])
    say(tr("{name} has been added: {state}. Its devices: {devices}", name=host.name, state=state_words(report),
           devices=join_names(names) or tr("none")))  # fmt: skip
    return 0


def _remove(options: Namespace) -> int:
    host = host_list.remove(options.host)
    if options.json:
        say_json({"name": host.name, "address": host.address, "command": host.command})
    else:
        say(tr("{name} has been removed from the list. Nothing was changed on {address}.", name=host.name,
               address=host.address))  # fmt: skip
    return 0
