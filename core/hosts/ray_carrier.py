"""Start agents on the nodes of the user's own Ray cluster: `ray:auto`, `ray:HOST:PORT`, `ray:HOST:PORT/NODE`."""

from __future__ import annotations

import collections
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.devices.device import Device
from core.hosts.carrier import Carrier, Explanation, Failure, HostError, last_line, shown_line
from core.hosts.ray import reports
from core.hosts.ray.reports import AUTO
from core.language import tr, tr_noop
from core.schema.files import parse_json
from core.system.helper_process import HelperProcess, clean_environment
from core.system.installation import ROOT, version

DRIVER = ("-m", "core.hosts.ray.driver")
"""What starts the driver in a Python with Ray, from the folder with our code."""
SEPARATOR = "/"
MAX_ADDRESS = 255
CLUSTER = re.compile(rf"{AUTO}|(?:[\w.][\w.-]*|\[[0-9A-Fa-f:]+(?:%\w+)?\]):\d{{1,5}}")
NODE = re.compile(r"[\w.][\w.:%+@-]*")
LIST_S = 30.0
"""Longest wait for the list of nodes."""
ID_CHARACTERS = 6
"""Of a node's id, in the name of a host."""
PACKAGES = ("platformdirs", "pynvml")
"""Packages in plain Python that an agent needs."""
ROWS = {
    "no-ray": Explanation(Failure.NO_RAY, tr_noop(
        "Ray is not installed in {python}. Install it there (pip install 'trainyard[ray]'), or name the Python "
        "that the cluster uses: trainyard hosts add {address} --python /PATH/TO/python"
    )),
    "python": Explanation(Failure.OTHER_VERSION, tr_noop(
        "{python} is Python {line}, and Trainyard needs 3.11 or newer there and on the nodes of the cluster."
    )),
    "no-cluster": Explanation(Failure.NO_CLUSTER, tr_noop(
        "No Ray cluster runs on this machine, and none is named by RAY_ADDRESS as HOST:PORT. Start it or join it "
        "(ray start), or give its address: trainyard hosts add ray:HOST:PORT. Ray says: {line}"
    )),
    "unknown-name": Explanation(Failure.UNKNOWN_NAME, tr_noop(
        "No machine is known by the name in {address}. Check it, and the network or VPN that knows it. The system "
        "says: {line}"
    )),
    "closed-port": Explanation(Failure.CLOSED_PORT, tr_noop(
        "No Ray cluster answers at {cluster}. Check that it runs (ray status on its head), and the port that "
        "ray start has printed there. The system says: {line}"
    )),
    "unreachable": Explanation(Failure.UNREACHABLE, tr_noop(
        "{cluster} cannot be reached. Check that the head of the Ray cluster is switched on, its firewall, and the "
        "network or VPN. The system says: {line}"
    )),
    "no-answer": Explanation(Failure.NO_ANSWER, tr_noop(
        "What listens at {cluster} has not answered as a Ray cluster. Check the port that ray start has printed on "
        "the head; that of its dashboard and of Ray Client are others. If the cluster asks for a token, set "
        "RAY_AUTH_MODE=token, and its token in RAY_AUTH_TOKEN or in ~/.ray/auth_token."
    )),
    "token": Explanation(Failure.REFUSED_TOKEN, tr_noop(
        "The Ray cluster {cluster} asks for a token, and accepts none from here. Set RAY_AUTH_MODE=token, and its "
        "token in RAY_AUTH_TOKEN or in ~/.ray/auth_token. Ray says: {line}"
    )),
    "version": Explanation(Failure.OTHER_VERSION, tr_noop(
        "{python} does not fit the Ray cluster {cluster}: Ray and Python must be of the same versions. Name the "
        "Python that the cluster uses: trainyard hosts add {address} --python /PATH/TO/python. Ray says: {line}"
    )),
    "not-in-the-cluster": Explanation(Failure.NOT_IN_CLUSTER, tr_noop(
        "This machine is no node of the Ray cluster {cluster}, and only from a node can it be used. Let it join: "
        "ray start --address={cluster}. Ray says: {line}"
    )),
    "no-node": Explanation(Failure.NO_NODE, tr_noop(
        "{name} ({address}) is not in the Ray cluster now. Start Ray there again. A node without a name of its own "
        "has another address after that: remove the host, and add the cluster again. Its nodes now: {nodes}"
    )),
    "two-nodes": Explanation(Failure.NO_NODE, tr_noop(
        "{address} is the name of two nodes of the Ray cluster. Give each a name of its own "
        "(ray start --node-name), then remove the host, and add the cluster again. Its nodes now: {nodes}"
    )),
    "busy": Explanation(Failure.BUSY, tr_noop(
        "Other programs of the Ray cluster use what the run needs of {name} ({address}): {line}. Of GPUs these are "
        "all of the node, since Ray does not let a run choose which ones it keeps. See what is in use: ray "
        "status. Start the run when they have ended."
    )),
    "no-start": Explanation(Failure.NO_AGENT, tr_noop(
        "Ray did not start Trainyard on {name} ({address}). Check that the node is still in the cluster "
        "(ray status), and try again. Ray says: {line}"
    )),
    "lost": Explanation(Failure.CUT, tr_noop(
        "The connection to {name} ({address}) was cut: the node left the Ray cluster, or the actor there was "
        "ended. Check ray status, and try again. Ray says: {line}"
    )),
    "ray": Explanation(Failure.RAY, tr_noop(
        "The Ray cluster of {address} cannot be used. Try it in a terminal: ray status. Ray says: {line}"
    )),
}
"""By the reason of a report. Further fields are `python`, and those of the report."""
SIGNAL = Explanation(Failure.CUT, tr_noop("The driver of Ray for {name} ({address}) was ended by a signal. Try again."))
OTHER_END = Explanation(
    Failure.NO_AGENT, tr_noop("On {name} ({address}), Trainyard ended before it answered. It wrote: {line}")
)
CUT = Explanation(Failure.CUT, tr_noop(
    "The connection to {name} ({address}) was cut, or Trainyard was ended there. Check ray status, and try again."
))
SILENCE = Explanation(Failure.NO_ANSWER, tr_noop(
    "{what} has not answered within {seconds:g} s. Check in a terminal whether the Ray cluster does: ray status"
))


class RayCarrier(Carrier):
    """The user's own Ray cluster."""

    prefix = "ray:"
    option = "--python"
    is_shared = True
    cwd = ROOT

    def __init__(self, address: str, name: str = "", command: str = "") -> None:
        """See `Carrier`. `command`: the path of a Python that has Ray."""
        super().__init__(address, name, command)
        self._cluster, _, self._node = address.removeprefix(self.prefix).partition(SEPARATOR)
        self.is_cluster = not self._node

    @property
    def address_problem(self) -> str:
        is_node = not self._node or NODE.fullmatch(self._node)
        if len(self.address) <= MAX_ADDRESS and CLUSTER.fullmatch(self._cluster) and is_node:
            return ""
        return tr("{address!r} is no address of a Ray cluster. Give ray:auto for the cluster of this machine, or "
                  "ray:HOST:PORT as in ray start --address=HOST:PORT.", address=self.address)

    @property
    def default_name(self) -> str:
        return _default_name(self._node)

    @staticmethod
    def start_with(given: str | None) -> str:
        """Return the path of the Python that is to have Ray: the given one, or ours. Raises `ValueError`."""
        if given is None:
            return sys.executable
        found = shutil.which(Path(given).expanduser())
        if found is None:
            raise ValueError(tr("{given} is no program. Give the path of a Python that has Ray.", given=given))
        return str(Path(found).absolute())

    @staticmethod
    def environment() -> dict[str, str]:
        """See `Carrier`. With PYTHONSAFEPATH, Python would not find the driver, which is in the working folder."""
        return {name: value for name, value in clean_environment().items() if name != "PYTHONSAFEPATH"}

    def command_line(self, devices: Sequence[Device]) -> list[str]:
        cores, uses_gpus = sum(len(each.cores) for each in devices), any(not each.cores for each in devices)
        return [self.command, *DRIVER, "agent", self._cluster, self._node, str(cores), str(int(uses_gpus)), version(),
                *sources()]

    def find(self) -> dict[str, str]:
        """Return by name the addresses of the hosts behind the address: one node, or all of a cluster.

        Asks the cluster for its nodes. Raises `HostError`.
        """
        return hosts_of(self._cluster, self._nodes()) if self.is_cluster else super().find()

    def not_started(self, error: OSError) -> HostError:
        sentence = tr(
            "The Python with Ray cannot be started: {path}: {why}. Name another one: trainyard hosts add ray:HOST:PORT "
            "--python /PATH/TO/python", path=error.filename, why=error.strerror,
        )
        return HostError(Failure.NO_RAY, sentence)

    def explain_start(self, status: int, errors: str, noise: str) -> HostError:
        line = last_line(errors) or last_line(noise) or "-"
        return self._reported(errors) or self._error(SIGNAL if status < 0 else OTHER_END, line=line)

    def explain_cut(self, errors: str) -> HostError:
        return self._reported(errors) or self._error(CUT)

    def explain_silence(self, seconds: float) -> HostError:
        what = self.address if self.name == self.address else f"{self.name} ({self.address})"
        return self._error(SILENCE, what=what, seconds=seconds)

    def _reported(self, errors: str) -> HostError | None:
        """Return what the driver has reported on standard error; None if it has reported nothing."""
        report = reports.find(errors)
        if report is None or report.why not in ROWS:
            return None
        return self._error(
            ROWS[report.why], python=self.command, line=shown_line(report.line) or "-",
            cluster=shown_line(report.cluster), nodes=shown_line(report.nodes) or "-",
        )

    def _nodes(self) -> list[dict[str, str]]:
        command = [self.command, *DRIVER, "nodes", self._cluster]
        try:
            process = HelperProcess(command, cwd=self.cwd, environment=self.environment(), stderr=subprocess.PIPE)
        except OSError as error:
            raise self.not_started(error) from error
        with process:
            try:
                process.wait(LIST_S)
            except TimeoutError:
                raise self.explain_silence(LIST_S) from None
            except ValueError:
                pass  # it wrote more than can be: no list of nodes
            found = _read(bytes(process.output))
            if found:
                return found
            errors = process.errors.decode(errors="replace")
        if reported := self._reported(errors):
            raise reported
        sentence = tr("{python} lists no nodes of the Ray cluster {address}. It says: {line}", python=self.command,
                      address=self.address, line=last_line(errors) or "-")
        raise HostError(Failure.RAY, sentence)


def sources() -> list[str]:
    """Return the folders and files that travel to a node, found without loading them.

    What is compiled does not travel: an agent does without numpy and orjson, or finds them beside what training needs.
    """
    found = [str(ROOT / "core"), str(ROOT / "resources")]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found.append(str(Path(spec.origin).parent) if spec.submodule_search_locations else spec.origin)
    return found


def hosts_of(cluster: str, nodes: list[dict[str, str]]) -> dict[str, str]:
    """Return by name the addresses of nodes.

    A node is found by the name that its user has given to it, since it has another id after each start. Ray names
    others after their address, which two nodes of one machine share: these are found by their ids.
    """
    names = collections.Counter(each["name"] for each in nodes)
    machines = collections.Counter(each["machine"] for each in nodes)
    found: dict[str, str] = {}
    for each in nodes:
        is_unique = names[each["name"]] == 1 and NODE.fullmatch(each["name"]) is not None
        is_named = is_unique and each["name"] != each["ip"]
        name = _default_name(each["name"] if is_named else each["machine"] or each["ip"])
        if name in found or (not is_named and machines[each["machine"]] > 1):
            name = f"{name}-{each['id'][:ID_CHARACTERS]}"
        node = each["name"] if is_unique else each["id"]
        found[name] = f"{RayCarrier.prefix}{cluster}{SEPARATOR}{node}"
    return found


def _default_name(node: str) -> str:
    """Return the name of a host from that of its node: the first part of a name, or a whole number."""
    if re.fullmatch(r"[\d.]+", node):
        return node
    return re.sub(r"\W+", "-", node if ":" in node else node.partition(".")[0]).strip("-_")


def _read(output: bytes) -> list[dict[str, str]]:
    """Return the nodes that the driver has listed; none if that is no list of nodes."""
    try:
        found: Any = parse_json(output)
        return [{name: str(each[name]) for name in ("id", "name", "ip", "machine")} for each in found]
    except (ValueError, TypeError, LookupError):
        return []
