"""The command lines of the driver, and what its reports mean."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.hosts.carriers.ray import addresses, archive, reports
from core.hosts.carriers.ray.reservation import Wanted
from core.hosts.failures import Failure, HostError, last_line, shown_line
from core.language import tr, tr_noop
from core.system.installation import ROOT, version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Device
    from core.hosts.host_list import Host

NAME = "ray"
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from core.hosts.carriers.ray.driver import main; "
    "sys.path.remove(sys.argv[1]); main(sys.argv[2:])"
)
"""Of our packages, only those of `core` are for the driver: the others are those of its own Python."""


def start_with(given: str | None) -> str:
    """Return the path of the Python that is to have Ray: the given one, or ours. Raises `ValueError`."""
    if given is None:
        return sys.executable
    found = shutil.which(Path(given).expanduser())
    if found is None:
        raise ValueError(tr("{given} is no program. Give the path of a Python that has Ray.", given=given))
    return str(Path(found).absolute())


def nodes_command(address: str, python: str) -> list[str]:
    """Return the command line that lists the nodes of a cluster."""
    return [python, "-c", BOOT, str(ROOT), "nodes", addresses.split(address)[0]]


def command(host: Host, devices: Sequence[Device]) -> list[str]:
    """Return the command line that leads to the agent on a node. `devices`: those to keep other users off."""
    cluster, node = addresses.split(host.address)
    return [host.command, "-c", BOOT, str(ROOT), "agent", cluster, node, *Wanted.of(devices).words(), version(),
            *archive.sources()]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    """What a report means. The fields of its sentence are those of the report, and `name`, `address`, `python`."""

    failure: Failure
    sentence: str


ROWS = {
    "no-ray": _Row(
        Failure.NO_RAY,
        tr_noop(
            "Ray is not installed in {python}. Install it there (pip install 'trainyard[ray]'), or name the Python "
            "that the cluster uses: trainyard hosts add {address} --python /PATH/TO/python"
        ),
    ),
    "python": _Row(
        Failure.OTHER_VERSION,
        tr_noop("{python} is Python {line}, and Trainyard needs 3.11 or newer there and on the nodes of the cluster."),
    ),
    "no-cluster": _Row(
        Failure.NO_CLUSTER,
        tr_noop(
            "No Ray cluster runs on this machine, and none is named by RAY_ADDRESS as HOST:PORT. Start it or join it "
            "(ray start), or give its address: trainyard hosts add ray:HOST:PORT. Ray says: {line}"
        ),
    ),
    "unknown-name": _Row(
        Failure.UNKNOWN_NAME,
        tr_noop(
            "No machine is known by the name in {address}. Check it, and the network or VPN that knows it. The system "
            "says: {line}"
        ),
    ),
    "closed-port": _Row(
        Failure.CLOSED_PORT,
        tr_noop(
            "No Ray cluster answers at {cluster}. Check that it runs (ray status on its head), and the port that "
            "ray start has printed there. The system says: {line}"
        ),
    ),
    "unreachable": _Row(
        Failure.UNREACHABLE,
        tr_noop(
            "{cluster} cannot be reached. Check that the head of the Ray cluster is switched on, its firewall, and the "
            "network or VPN. The system says: {line}"
        ),
    ),
    "no-answer": _Row(
        Failure.NO_ANSWER,
        tr_noop(
            "What listens at {cluster} has not answered as a Ray cluster. Check the port that ray start has printed on "
            "the head; that of its dashboard and of Ray Client are others. If the cluster asks for a token, set "
            "RAY_AUTH_MODE=token, and its token in RAY_AUTH_TOKEN or in ~/.ray/auth_token."
        ),
    ),
    "token": _Row(
        Failure.REFUSED_TOKEN,
        tr_noop(
            "The Ray cluster {cluster} asks for a token, and accepts none from here. Set RAY_AUTH_MODE=token, and its "
            "token in RAY_AUTH_TOKEN or in ~/.ray/auth_token. Ray says: {line}"
        ),
    ),
    "version": _Row(
        Failure.OTHER_VERSION,
        tr_noop(
            "{python} does not fit the Ray cluster {cluster}: Ray and Python must be of the same versions. Name the "
            "Python that the cluster uses: trainyard hosts add {address} --python /PATH/TO/python. Ray says: {line}"
        ),
    ),
    "not-in-the-cluster": _Row(
        Failure.NOT_IN_CLUSTER,
        tr_noop(
            "This machine is no node of the Ray cluster {cluster}, and only from a node can it be used. Let it join: "
            "ray start --address={cluster}. Ray says: {line}"
        ),
    ),
    "no-node": _Row(
        Failure.NO_NODE,
        tr_noop(
            "{name} ({address}) is not in the Ray cluster now. Start Ray there again. A node without a name of its own "
            "has another address after that: remove the host, and add the cluster again. Its nodes now: {nodes}"
        ),
    ),
    "two-nodes": _Row(
        Failure.NO_NODE,
        tr_noop(
            "{address} is the name of two nodes of the Ray cluster. Give each a name of its own "
            "(ray start --node-name), then remove the host, and add the cluster again. Its nodes now: {nodes}"
        ),
    ),
    "busy": _Row(
        Failure.BUSY,
        tr_noop(
            "Other programs of the Ray cluster use what the run needs of {name} ({address}): {line}. Of GPUs these are "
            "all of the node, since Ray does not let a run choose which ones it keeps. See what is in use: ray "
            "status. Start the run when they have ended."
        ),
    ),
    "no-start": _Row(
        Failure.NO_AGENT,
        tr_noop(
            "Ray did not start Trainyard on {name} ({address}). Check that the node is still in the cluster "
            "(ray status), and try again. Ray says: {line}"
        ),
    ),
    "lost": _Row(
        Failure.CUT,
        tr_noop(
            "The connection to {name} ({address}) was cut: the node left the Ray cluster, or the actor there was "
            "ended. Check ray status, and try again. Ray says: {line}"
        ),
    ),
    "ray": _Row(
        Failure.RAY,
        tr_noop("The Ray cluster of {address} cannot be used. Try it in a terminal: ray status. Ray says: {line}"),
    ),
}
"""By the reason of a report."""


def not_started(error: OSError) -> HostError:
    """Return why the Python with Ray could not be started."""
    sentence = tr(
        "The Python with Ray cannot be started: {path}: {why}. Name another one: trainyard hosts add ray:HOST:PORT "
        "--python /PATH/TO/python",
        path=error.filename,
        why=error.strerror,
    )
    return HostError(Failure.NO_RAY, sentence)


def explain_start(host: Host, status: int, errors: str, noise: str) -> HostError:
    """Return why no agent came up: the driver has ended with this exit status, negative for a signal."""
    if error := explain_report(host.name, host.address, host.command, errors):
        return error
    if status < 0:
        return HostError(
            Failure.CUT,
            tr("The driver of Ray for {name} ({address}) was ended by a signal. Try again.",
               name=host.name, address=host.address),
        )  # fmt: skip
    sentence = tr(
        "On {name} ({address}), Trainyard ended before it answered. It wrote: {line}",
        name=host.name,
        address=host.address,
        line=last_line(errors) or last_line(noise) or "-",
    )
    return HostError(Failure.NO_AGENT, sentence)


def explain_cut(host: Host, errors: str) -> HostError:
    """Return that an agent was there and the driver has ended."""
    if error := explain_report(host.name, host.address, host.command, errors):
        return error
    sentence = tr(
        "The connection to {name} ({address}) was cut, or Trainyard was ended there. Check ray status, and try again.",
        name=host.name,
        address=host.address,
    )
    return HostError(Failure.CUT, sentence)


def explain_silence(host: Host, seconds: float) -> HostError:
    """Return that nothing has come for so long."""
    return silence(f"{host.name} ({host.address})", seconds)


def silence(what: str, seconds: float) -> HostError:
    """Return that nothing has come from a node or a cluster for so long."""
    sentence = tr(
        "{what} has not answered within {seconds:g} s. Check in a terminal whether the Ray cluster does: ray status",
        what=what,
        seconds=seconds,
    )
    return HostError(Failure.NO_ANSWER, sentence)


def explain_report(name: str, address: str, python: str, errors: str) -> HostError | None:
    """Return what the driver has reported on standard error; None if it has reported nothing."""
    report = reports.find(errors)
    row = ROWS.get(report.why) if report else None
    if report is None or row is None:
        return None
    return HostError(
        row.failure,
        tr(row.sentence, name=name, address=address, python=python, line=shown_line(report.line) or "-",
           cluster=shown_line(report.cluster), nodes=shown_line(report.nodes) or "-"),
    )  # fmt: skip
