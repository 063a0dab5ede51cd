"""The command `hosts` lists, adds and removes other machines; `agent` answers the Trainyard of another machine."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from core.cli.output import answer, say, say_json, say_rows, warn
from core.devices.device import full_name
from core.errors import RunError
from core.hosts import host_list
from core.hosts.host_list import HostList
from core.language import join_sentences, tr
from core.table import Column
from core.text import first_names, join_names

if TYPE_CHECKING:
    from core.hosts.inquiry import HostReport


FAILED = 1
"""The exit code if some nodes of a cluster could not be added."""
ADD, REMOVE = "add", "remove"
ACTIONS = (ADD, REMOVE)


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "action", nargs="?", metavar="ACTION", choices=ACTIONS,
        help=tr("add ADDRESS, or remove NAME; without one, the hosts are listed and asked whether they answer"),
    )
    add(
        "address", nargs="?", metavar="ADDRESS|NAME",
        help=tr(
            "USER@HOST, ssh://USER@HOST:PORT, or a name of ~/.ssh/config; ray:auto or ray:HOST:PORT for all nodes of a "
            "Ray cluster; for remove: the name of the host"
        ),
    )
    add("--name", help=tr("for add: the name of the host here; default: the first part of its address"))
    add(
        "--command", dest="remote_command", metavar="LINE",
        help=tr("for add: what starts Trainyard there, such as ~/trainyard/.venv/bin/trainyard; default: trainyard"),
    )
    add(
        "--python", metavar="PATH",
        help=tr("for add ray:...: the Python here that has the Ray of the cluster; default: that of Trainyard"),
    )


def hosts(options: Namespace) -> int:
    """List other machines and whether they answer, or add or remove one."""
    _check(options)
    if options.action == ADD:
        return _add(options)
    if options.action == REMOVE:
        host = host_list.remove(options.address)
        done = tr("{name} has been removed from the list. Nothing was changed on {address}.", name=host.name,
                  address=host.address)
        return answer(options, {"name": host.name, "address": host.address, "command": host.command}, done)
    listed = host_list.load()
    if listed.problem:
        warn(listed.problem)
    if not listed.hosts:
        if not options.json:
            warn(tr("No host has been added. Add one: trainyard hosts add USER@HOST"))
        return answer(options, [])
    from core.hosts.inquiry import ask, report_document, state_words  # only where there are hosts

    reports = ask(listed.hosts, devices=False)
    if options.json:
        say_json([report_document(each) for each in reports])
        return 0
    columns: tuple[Column[HostReport], ...] = (
        Column("name", text=lambda each: each.host.name),
        Column("address", text=lambda each: each.host.address),
        Column("state", text=state_words),
    )
    return say_rows(options, columns, reports)


def _check(options: Namespace) -> None:
    if options.action is not None and options.address is None:
        missing = tr("The address is missing: trainyard hosts add USER@HOST")
        raise ValueError(missing if options.action == ADD else tr("The name is missing: trainyard hosts remove NAME"))
    given = {"--name": options.name, "--command": options.remote_command, "--python": options.python}
    if options.action != ADD and any(value is not None for value in given.values()):
        raise ValueError(tr("{options} are for `hosts add`. Leave them out.", options=join_names([*given])))


def _add(options: Namespace) -> int:
    listed = host_list.load()
    hosts = _new_hosts(options, listed)
    for host in hosts:
        host_list.check_new(host, listed)
    from core.hosts.inquiry import ask, report_document

    reports = ask(hosts, devices=True)
    added = [each for each in reports if each.error is None]
    if not added:
        problem = join_sentences([str(each.error) for each in reports])
        raise RunError(join_sentences([problem, tr("The host was not added.")]))
    for each in added:
        host_list.add(each.host)
    if options.json:
        documents = [report_document(each) for each in reports]
        say_json(documents if host_list.carrier_of(options.address).is_cluster else documents[0])
    else:
        for each in reports:
            _say_added(each)
    return 0 if len(added) == len(reports) else FAILED


def _new_hosts(options: Namespace, listed: HostList) -> list[host_list.Host]:
    """Return the hosts behind the address: one, or those nodes of a cluster that are not in the list."""
    address, carrier = options.address, host_list.carrier_of(options.address)
    if problem := carrier.address_problem:
        raise ValueError(problem)
    given = {"--command": options.remote_command, "--python": options.python}
    for option, value in given.items():
        if value is not None and option != carrier.option:
            raise ValueError(tr("{option} is not for {address}. Leave it out.", option=option, address=address))
    command = carrier.start_with(given[carrier.option])
    found = host_list.carrier_of(address, command=command).find()
    if options.name is not None:
        if len(found) > 1:
            raise ValueError(
                tr("{address} has several nodes, so it cannot be named {name}. Leave --name out, or add one node: "
                   "{first}", address=address, name=options.name, first=next(iter(found.values())))
            )
        found = dict.fromkeys([options.name], *found.values())
    hosts = [host_list.Host(name=name, address=each, command=command) for name, each in found.items()]
    if not carrier.is_cluster:
        return hosts
    known = {each.address for each in listed.hosts}
    if all(each.address in known for each in hosts):
        raise ValueError(tr("All nodes of {address} are in the list already. See them: trainyard hosts",
                            address=address))
    return [each for each in hosts if each.address not in known]


def _say_added(report: HostReport) -> None:
    if report.error is not None:
        warn(join_sentences([str(report.error), tr("The host was not added.")]))
        return
    from core.hosts.inquiry import state_words

    if report.clock_problem:
        warn(report.clock_problem)
    found = report.devices.devices if report.devices else ()
    names = first_names([full_name(report.host.name, device.short_name) for device in found])
    say(tr("{name} has been added: {state}. Its devices: {devices}", name=report.host.name, state=state_words(report),
           devices=join_names(names) or tr("none")))


SSH_CONNECTION = "SSH_CONNECTION"
"""The variable in which sshd says who has connected: client address, client port, server address, server port."""


def add_stdio(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--stdio", action="store_true", help=tr("talk over standard input and output; there is no other way yet")
    )


def agent(options: Namespace) -> int:
    """Answer the Trainyard of another machine, which starts this through ssh; see `hosts`."""
    if not options.stdio:
        raise ValueError(
            tr("The agent is started by the Trainyard of another machine (trainyard hosts add), as: agent --stdio")
        )
    from core.config.abilities import PART_ABILITIES, START_ABILITIES  # the other commands do without these
    from core.hosts.agent.abilities import ABILITIES
    from core.hosts.agent.server import serve
    from core.hosts.ray.reports import PEER

    abilities = {**ABILITIES, **PART_ABILITIES}
    if PEER in os.environ:  # on a node of Ray, where no whole run starts: our code there is removed when it is not used
        peer = os.environ.pop(PEER)
    else:
        abilities |= START_ABILITIES
        peer = os.environ.get(SSH_CONNECTION, "").partition(" ")[0]
    serve(options.runs, abilities, peer)
    return 0
