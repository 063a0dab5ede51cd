"""A process here, in a Python with Ray, that leads to the agent on a node of the user's cluster.

It attaches to the cluster, and never starts one. Its input and output are those of the agent. Ray ends its actor when
this process is gone, and the agent notices the end of its input. Standard library and Ray only.
"""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import socket
import sys
import zipfile
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any

from core.hosts.ray import node
from core.hosts.ray.reports import AUTO, STATUS, Report, ReportError, written
from core.system.installation import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

CHUNK_BYTES = 65536
PORT_S = 5.0
"""Longest wait for the port of the cluster."""
ATTACH_S = 20.0
"""Longest wait for the cluster to let this process in, and again for the node to start the node."""
RESERVE_S = 5.0
"""Longest wait for what others use: they may just be ending."""
NODE_LABEL = "ray.io/node-id"
END_S = 10.0
"""Longest wait for the end of the agent after that of the input."""
STDIN, STDOUT, STDERR = 0, 1, 2
OF_RESOURCES = frozenset({"__init__.py", "data", "recipes"})
"""What of `resources` a node needs: icons, themes and translations are for this machine."""
LEVEL = 1
"""Of the compression: half a second of another one would save a third of the megabyte."""
OLDEST = (3, 11)
"""The oldest Python of Trainyard, and so of an agent."""


def main(words: Sequence[str]) -> None:
    """Do what the command line says: `nodes CLUSTER`, or `agent CLUSTER` and the words of `pass_on`. Never returns."""
    answers = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)  # Ray prints, which must not mix with the answers
    try:
        what, cluster, *rest = words
        attach(cluster)
        status = list_nodes(answers) if what == "nodes" else pass_on(answers, *rest)
    except ReportError as error:
        give_up(error.report)
    except Exception as error:  # noqa: BLE001 (whatever Ray raises is told)
        give_up(Report(why="ray", line=last_line(error)))
    os._exit(status)


def give_up(report: Report) -> None:
    """Write a report, and end this process: threads of Ray may hang."""
    os.write(STDERR, written(report).encode())
    os._exit(STATUS)


# -- the cluster -------------------------------------------------------------------------------------


def attach(cluster: str) -> None:
    """Become a driver of the cluster, or raise why that cannot be."""
    if sys.version_info < OLDEST:
        raise ReportError(Report(why="python", line="{}.{}.{}".format(*sys.version_info)))
    try:
        import ray
    except ImportError as error:
        raise ReportError(Report(why="no-ray", line=str(error))) from None
    address = bootstrap_address(cluster)
    check_port(address)
    watch = within(ATTACH_S, give_up, Report(why="no-answer", cluster=address))
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:
        raise ReportError(refusal(error, address)) from error
    watch.cancel()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray notices, and ends the actor


def bootstrap_address(cluster: str) -> str:
    """Return HOST:PORT. `auto` is looked up as Ray does, except that no cluster is started where there is none."""
    if cluster != AUTO:
        return cluster
    from ray._private.services import canonicalize_bootstrap_address_or_die

    named = os.environ.get("RAY_ADDRESS", "")
    if "://" in named or named == "local":
        raise ReportError(Report(why="no-cluster", line=f"RAY_ADDRESS={named}"))
    try:
        found: str = canonicalize_bootstrap_address_or_die(AUTO)
    except (ConnectionError, ValueError) as error:
        raise ReportError(Report(why="no-cluster", line=last_line(error))) from error
    return found


def check_port(address: str) -> None:
    """Raise why nothing answers at this address: Ray itself would try for long, and then not say why."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PORT_S).close()
    except socket.gaierror as error:
        raise ReportError(Report(why="unknown-name", line=error.strerror or str(error))) from error
    except ConnectionRefusedError as error:
        raise ReportError(Report(why="closed-port", line=error.strerror or str(error), cluster=address)) from error
    except (OSError, OverflowError, ValueError) as error:
        raise ReportError(Report(why="unreachable", line=str(error), cluster=address)) from error


def refusal(error: Exception, address: str) -> Report:
    """Return why the cluster does not let this process in."""
    text = "\n".join(str(each) for each in (error, error.__cause__, error.__context__) if each is not None)
    for why, said in SAID:
        if any(each.lower() in text.lower() for each in said):
            return Report(why=why, line=" ".join(text.split()), cluster=address)
    return Report(why="ray", line=last_line(error), cluster=address)


SAID = (
    ("token", ("authentication", "unauthenticated", "token")),
    ("version", ("Version mismatch",)),
    ("not-in-the-cluster", ("No Raylet found", "node to connect", "This node has an IP address", "raylet")),
)
"""By the reason, what Ray says then."""


def within(seconds: float, act: Callable[..., object], *arguments: object) -> Timer:
    """Do this after so many seconds, unless the timer is cancelled."""
    timer = Timer(seconds, act, arguments)
    timer.daemon = True
    timer.start()
    return timer


def living_nodes() -> list[dict[str, Any]]:
    """Return the nodes of the cluster as Ray describes them."""
    import ray

    return sorted(
        (each for each in ray.nodes() if each["Alive"]),
        key=lambda each: (str(each.get("NodeName")), str(each["NodeID"])),
    )


def list_nodes(answers: int) -> int:
    """Write the nodes as one line of JSON."""
    found = [
        {
            "id": each["NodeID"], "name": each.get("NodeName") or "", "ip": each["NodeManagerAddress"],
            "machine": each.get("NodeManagerHostname") or "",
        }
        for each in living_nodes()
    ]
    write_all(answers, json.dumps(found).encode() + b"\n")
    return 0


# -- the agent ---------------------------------------------------------------------------------------


def pass_on(answers: int, name: str, cores: str, gpus: str, number: str, *sources: str) -> int:
    """Start the agent on the node of this name, and pass on what it reads and writes until it ends.

    `cores`: how many to reserve; `gpus`: 1 to reserve the node's GPUs, else 0; `number`, `sources`: the version of our
    code, and its files.
    """
    import ray

    found = find_node(name)
    reserve(found, int(cores), uses_gpus=gpus == "1")
    agent = start(str(found["NodeID"]), packed(sources, number), own_address())
    Thread(target=pass_on_input, args=(agent,), daemon=True).start()
    try:
        pass_on_output(agent, answers)
    except ray.exceptions.RayError as error:
        raise ReportError(Report(why="lost", line=last_line(error))) from error
    except OSError:  # nobody reads the answers
        return 1
    return 0


def packed(paths: Sequence[str], number: str) -> bytes:
    """Return our code as a ZIP archive: `core`, the included recipes with their data, and packages.

    `paths`: as `core.hosts.ray_carrier.sources` returned. `number`: the version of Trainyard, which the agent says.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path in paths:
            for file, name in _files(Path(path)):
                archive.write(file, name)
        archive.write(node.__file__, "__main__.py")  # a Python that is given the archive runs the keeper
        metadata = f"Metadata-Version: 2.1\nName: {COMMAND}\nVersion: {number}\n"
        archive.writestr(f"{COMMAND}-{number}.dist-info/METADATA", metadata)
    return buffer.getvalue()


def _files(path: Path) -> Iterator[tuple[Path, str]]:
    if path.is_file():
        yield path, path.name
        return
    for each in sorted(path.rglob("*")):
        inner = each.relative_to(path)
        is_needed = path.name != "resources" or inner.parts[0] in OF_RESOURCES
        if is_needed and each.is_file() and "__pycache__" not in inner.parts:
            yield each, f"{path.name}/{inner}"


def needed(total: Mapping[str, float], cores: int, *, uses_gpus: bool) -> dict[str, float]:
    """Return what a run needs in Ray's resources, of which a node has so many. Those that it lacks are left out."""
    asked = {"CPU": min(cores, total.get("CPU", 0)), "GPU": total.get("GPU", 0) if uses_gpus else 0}
    return {name: amount for name, amount in asked.items() if amount}


def reserve(found: Mapping[str, Any], cores: int, *, uses_gpus: bool) -> None:
    """Reserve devices on a node, as Ray describes it, until this process ends. Raises `ReportError` if others use them.

    Ray counts devices and does not let a program choose which ones, so a run that uses a GPU of a node keeps all GPUs
    of that node. Like the actor, a placement group ends with its driver, however that ends.
    """
    from ray.util.placement_group import placement_group

    resources = needed(found["Resources"], cores, uses_gpus=uses_gpus)
    if not resources:
        return
    group = placement_group([resources], bundle_label_selector=[{NODE_LABEL: str(found["NodeID"])}])
    if not group.wait(RESERVE_S):
        line = ", ".join(f"{amount:g} {name}" for name, amount in resources.items())
        raise ReportError(Report(why="busy", line=line))


def find_node(name: str) -> dict[str, Any]:
    """Return a node as Ray describes it, from its name or id."""
    nodes = living_nodes()
    fitting = [each for each in nodes if name in {each["NodeID"], each.get("NodeName")}]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(str(each.get("NodeName") or each["NodeID"]) for each in nodes)
    raise ReportError(Report(why="two-nodes" if fitting else "no-node", nodes=known))


def own_address() -> str:
    """Return the address of this machine in the cluster; the empty string if the cluster does not tell."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    return next((str(each["NodeManagerAddress"]) for each in living_nodes() if each["NodeID"] == own), "")


def start(node_id: str, code: bytes, peer: str) -> Any:  # noqa: ANN401 (an actor of Ray)
    """Start the actor on the node with this id, and wait until it has started the agent.

    `peer`: the address of this machine.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.cloudpickle.register_pickle_by_value(node)
    groups = {node.INPUT: 1, node.OUTPUT: 1}
    kind = ray.remote(num_cpus=0, num_gpus=0, max_restarts=0, concurrency_groups=groups)(node.AgentActor)
    made = kind.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False)).remote(code, peer)
    watch = within(ATTACH_S, give_up, Report(why="no-start"))
    try:
        ray.get(made.__ray_ready__.remote())
    except ray.exceptions.RayError as error:
        raise ReportError(Report(why="no-start", line=last_line(error))) from error
    watch.cancel()
    return made


def pass_on_input(agent: Any) -> None:  # noqa: ANN401 (an actor of Ray)
    """Pass on this process's input to its end. Waits while the agent does not read."""
    import ray

    call = agent.write.options(concurrency_group=node.INPUT).remote
    try:
        while data := os.read(STDIN, CHUNK_BYTES):
            ray.get(call(data))
        within(END_S, os._exit, 1)  # whatever the agent does: Ray then ends the actor
        ray.get(agent.end_input.options(concurrency_group=node.INPUT).remote())
    except ray.exceptions.RayError:
        return  # the thread that reads notices, too, and says it


def pass_on_output(agent: Any, answers: int) -> None:  # noqa: ANN401 (an actor of Ray)
    """Pass on what the agent writes, until it ends. Raises an error of Ray if the actor is gone."""
    import ray

    call: Callable[[], Any] = agent.read.options(concurrency_group=node.OUTPUT).remote
    is_over = False
    while not is_over:
        output, errors, is_over = ray.get(call())
        write_all(STDERR, errors)
        write_all(answers, output)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. Waits while nobody reads."""
    while data:
        data = data[os.write(descriptor, data) :]


def last_line(error: BaseException) -> str:
    """Return the last line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


if __name__ == "__main__":
    del sys.path[0]  # the folder with `core`: all other packages are those of this Python
    os.chdir("/")  # Ray's workers search the working folder of their driver for modules
    main(sys.argv[1:])
