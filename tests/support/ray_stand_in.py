"""A stand-in for Ray: a node without a cluster, which starts real actors with their keepers and agents.

`running` runs the node, and makes an executable to be named as the Python of a host. That gets the command line of the
driver, and connects to the node. Like the worker of a node, an actor is a process that the node has started.
"""

import contextlib
import json
import os
import socket
import socketserver
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import NoReturn

import psutil

from core.hosts.ray import driver, reports
from core.hosts.ray.node import AgentActor
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PEER = "127.0.0.1"
"""The address of this machine, as the stand-in tells it."""
CHUNK_BYTES = 65536
RESERVED, BUSY, SOCKET = "reserved", "busy", "socket"
"""Files of a node: what each connection has reserved, whether others have its devices, where it answers."""


@dataclass(frozen=True)
class StandIn:
    """A node that runs."""

    folder: Path
    """Its files; `home` is the home of its user, `tmp` has its temporary files."""
    process: psutil.Process

    @property
    def python(self) -> Path:
        """The executable that leads to the node, as a driver of Ray does."""
        return self.folder / "python"

    def actors(self) -> list[psutil.Process]:
        """Return the actors on the node."""
        return [each for each in self.process.children() if _lives(each)]

    def kill_actors(self) -> None:
        """Kill the actors on the node."""
        for each in self.actors():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    def codes(self) -> list[Path]:
        """Return the folders with our code on the node."""
        return list((self.folder / "tmp").glob("trainyard-ray-*"))

    def parts(self) -> list[Path]:
        """Return the run directories on the node."""
        return list(self.folder.glob("home/trainyard/runs/2*"))

    def reserved(self) -> list[str]:
        """Return what each connection has asked for: cores, and whether it asked for GPUs."""
        return (self.folder / RESERVED).read_text().splitlines()

    def give_to_others(self) -> None:
        """Give the devices of the node to other users from now on."""
        (self.folder / BUSY).touch()


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):  # the node has just taken its exit code
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


@contextlib.contextmanager
def running(folder: Path, worker: Path) -> Iterator[StandIn]:
    """Run a node with its files in a folder. `worker`: the Python that trains there."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    places = {"HOME": folder / "home", "XDG_DATA_HOME": folder / "home", "TMPDIR": folder / "tmp"}
    settings = {"TRAINYARD_CPU_DEVICES": "2", "TRAINYARD_PYTHON_PYTORCH": worker, "RAY_SETTING": "1"}
    environment = {**os.environ, **{name: str(value) for name, value in (places | settings).items()}}
    write_python(folder)
    command = [sys.executable, "-m", "tests.support.ray_stand_in", "node", str(folder)]
    with subprocess.Popen(command, env=environment, cwd=ROOT) as process:
        try:
            wait_until((folder / SOCKET).exists, "the node to answer")
            yield StandIn(folder, psutil.Process(process.pid))
        finally:
            process.terminate()


def write_python(folder: Path) -> None:
    """Write the executable that leads to a node."""
    python = folder / "python"
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m tests.support.ray_stand_in driver {folder} "$@"\n'
    )
    python.chmod(0o755)


# -- the processes -----------------------------------------------------------------------------------


class Node(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Starts an actor for each driver."""


class Actor(socketserver.StreamRequestHandler):
    """The process of an actor. It ends like one of Ray when its driver is gone."""

    rbufsize = 0

    def handle(self) -> None:
        number, *sources = json.loads(self.rfile.readline())
        os.environ["OMP_NUM_THREADS"] = "1"  # as Ray sets it for its workers
        agent = AgentActor(driver.packed(sources, number), PEER)

        def pass_on_input() -> None:
            pass_on(self.connection.fileno(), agent.write)
            agent.end_input()

        Thread(target=pass_on_input, daemon=True).start()
        is_over = False
        while not is_over:
            output, errors, is_over = agent.read()
            sys.stderr.write(errors.decode())
            with contextlib.suppress(OSError):  # the driver is gone
                self.connection.sendall(output)


def drive(folder: str, words: list[str]) -> NoReturn:
    """Do what the driver does with the words of `RayCarrier.command_line`, on a node instead of a cluster."""
    cores, gpus, number, *sources = words
    with Path(folder, RESERVED).open("a") as calls:
        calls.write(f"{cores} {gpus}\n")
    if (cores, gpus) != ("0", "0") and Path(folder, BUSY).exists():
        sys.stderr.write(reports.written(reports.Report(why="busy", line=f"{cores} CPU")))
        sys.exit(reports.STATUS)
    with socket.socket(socket.AF_UNIX) as node:
        at(folder, node.connect)
        node.sendall(json.dumps([number, *sources]).encode() + b"\n")

        def pass_on_input() -> None:
            pass_on(0, node.sendall)
            node.shutdown(socket.SHUT_WR)

        Thread(target=pass_on_input, daemon=True).start()
        pass_on(node.fileno(), lambda data: os.write(1, data))
        os._exit(0)


def pass_on(descriptor: int, write: Callable[[bytes], object]) -> None:
    """Pass on what can be read until the source ends, or the other side has closed."""
    with contextlib.suppress(OSError):
        while data := os.read(descriptor, CHUNK_BYTES):
            write(data)


def at(folder: str, do: Callable[[str], object]) -> None:
    """Do something with the path of the node's socket, which must be short: in the working folder."""
    before = Path.cwd()
    os.chdir(folder)
    do(SOCKET)
    os.chdir(before)


def serve(folder: str) -> None:
    """Be a node until this process is ended."""
    at(folder, lambda path: Node(path, Actor).serve_forever(poll_interval=0.1))


def main(what: str, folder: str, words: list[str]) -> None:
    """`words` of a driver: -m MODULE agent CLUSTER NODE, then what concerns the agent."""
    if what == "node":
        serve(folder)
    else:
        drive(folder, words[5:])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
