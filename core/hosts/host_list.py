"""The hosts that the user has added, in the order of their addition.

While the file is damaged, or of a newer version, it is not written: what is in it would be lost.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from core.errors import RunError
from core.language import join_sentences, tr
from core.schema.files import parse_json, read_whole
from core.system.folders import HOSTS_FILE, config_folder, config_folder_locked, save_in_config_folder
from core.system.installation import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

    from core.hosts.carrier import Carrier

VERSION = 1
MAX_BYTES = 256 * 1024
MAX_CHARACTERS = 1024
"""Longest command."""
VALID = re.compile(r"[^\W_][\w.-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Another machine. Raises `ValueError` with a sentence for a value that cannot be."""

    name: str
    address: str
    """Where it is, in the words of its carrier, such as `user@host`."""
    command: str = COMMAND
    """What starts Trainyard there, as the shell there reads it: `~/trainyard/.venv/bin/trainyard`."""

    def __post_init__(self) -> None:
        texts = (self.name, self.address, self.command)
        if not all(isinstance(each, str) for each in texts):
            raise ValueError(tr("Name, address and command of a host must be texts."))
        if problem := _name_problem(self.name) or self.carrier.address_problem or _command_problem(self.command):
            raise ValueError(problem)

    @property
    def carrier(self) -> Carrier:
        """The way to the host."""
        return carrier_of(self.address, self.name, self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostList:
    """The hosts as far as the file could be used."""

    hosts: tuple[Host, ...] = ()
    problem: str = ""
    """What is wrong with the file: a sentence, or the empty string."""

    def find(self, name: str) -> Host | None:
        """Return the host of this name, whatever its case."""
        return next((each for each in self.hosts if each.name.lower() == name.lower()), None)


def carrier_of(address: str, name: str = "", command: str = "") -> Carrier:
    """Return the carrier of an address. `name`, `command`: those of the host, where there is one already."""
    from core.hosts.ray_carrier import RayCarrier  # only where there are hosts
    from core.hosts.ssh import SshCarrier

    carrier = next(each for each in (RayCarrier, SshCarrier) if address.startswith(each.prefix))
    return carrier(address, name, command)


def find_or_make(text: str) -> Host:
    """Return the host of this name in the list, else one of this address that is not in the list.

    Raises `ValueError` with a sentence if it is neither.
    """
    found = load()
    host = found.find(text) or next((each for each in found.hosts if each.address == text), None)
    if host is not None:
        return host
    carrier = carrier_of(text)
    if problem := carrier.address_problem:
        raise ValueError(join_sentences([each for each in (found.problem, problem) if each]))
    return Host(name=carrier.default_name, address=text, command=carrier.start_with(None))


def hosts_file() -> Path:
    return config_folder() / HOSTS_FILE


def load() -> HostList:
    """Read the hosts. Those that cannot be are named in the problem."""
    path = hosts_file()
    try:
        found = parse_json(read_whole(path, MAX_BYTES, follow_link=True))
    except FileNotFoundError:
        return HostList()
    except OSError as error:
        why = error.strerror or str(error)
        return HostList(problem=tr("The hosts in {path} cannot be read: {why}.", path=path, why=why))
    except ValueError:
        found = None
    version = found.get("version") if isinstance(found, dict) else None
    rows = found.get("hosts") if isinstance(found, dict) else None
    if isinstance(version, int) and version > VERSION:
        return HostList(problem=tr("The hosts in {path} are those of a newer version of Trainyard. Use that version.",
                                   path=path))
    if version != VERSION or not isinstance(rows, list):
        return HostList(problem=tr("The hosts in {path} are damaged. Delete the file, then add them again.", path=path))
    return _read(rows)


def _read(rows: list[object]) -> HostList:
    listed, wrong = HostList(), []
    for number, row in enumerate(rows, 1):
        try:
            host = Host(**row)  # type: ignore[arg-type]  # anything may be in it, and Host checks each field
        except (ValueError, TypeError):
            wrong.append(str(number))
            continue
        if listed.find(host.name):
            wrong.append(str(number))
        else:
            listed = HostList(hosts=(*listed.hosts, host))
    if not wrong:
        return listed
    problem = tr(
        "These hosts in {path} make no sense: {numbers}, counted from 1. Correct the file, or delete it and add them "
        "again.", path=hosts_file(), numbers=", ".join(wrong),
    )
    return HostList(hosts=listed.hosts, problem=problem)


def check_new(host: Host, listed: HostList) -> None:
    """Raise `ValueError` if there is a host of this name, and `RunError` if the file cannot be changed."""
    if listed.problem:
        raise RunError(_unchanged(listed.problem))
    if known := listed.find(host.name):
        raise ValueError(tr(
            "There is a host {name} already: {address}. Choose another name with --name, or remove that one: "
            "trainyard hosts remove {name}", name=known.name, address=known.address,
        ))


def add(host: Host) -> None:
    """Add a host at the end. Raises `ValueError` or `RunError` with a sentence."""
    with config_folder_locked():
        listed = load()
        check_new(host, listed)
        _save((*listed.hosts, host))


def remove(name: str) -> Host:
    """Remove the host of this name and return it. Raises `ValueError` or `RunError` with a sentence."""
    with config_folder_locked():
        listed = load()
        if listed.problem:
            raise RunError(_unchanged(listed.problem))
        host = listed.find(name)
        if host is None:
            names = ", ".join(each.name for each in listed.hosts)
            known = tr("Choose one of: {names}.", names=names) if names else tr("None has been added.")
            raise ValueError(join_sentences([tr("There is no host {name!r}.", name=name), known]))
        _save(tuple(each for each in listed.hosts if each is not host))
        return host


def _unchanged(problem: str) -> str:
    return join_sentences([problem, tr("Nothing was changed.")])


def _name_problem(name: str) -> str:
    """Return why a host cannot have this name; the empty string if it can."""
    if VALID.fullmatch(name):
        return ""
    return tr(
        "A host cannot be named {name!r}. Use at most 63 letters, digits, dots, - and _, with a letter or digit first.",
        name=name,
    )


def _command_problem(command: str) -> str:
    if 0 < len(command) <= MAX_CHARACTERS and command.isprintable() and command.strip():
        return ""
    return tr("The command of a host must be one line of at most {count} characters.", count=MAX_CHARACTERS)


def _save(hosts: tuple[Host, ...]) -> None:
    document = {"version": VERSION, "hosts": [asdict(each) for each in hosts]}
    save_in_config_folder(HOSTS_FILE, json.dumps(document, indent=1) + "\n")
