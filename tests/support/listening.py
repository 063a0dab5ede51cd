"""List the TCP sockets on which processes listen, and record those of a run while it trains."""

import os
import re
import socket
import threading
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from core.system.procfs import PROC, pids, stat

LISTEN = "0A"
"""The state of a listening socket in `/proc/net/tcp`."""
EVERY_S = 0.2
SOCKET_LINK = re.compile(r"socket:\[(\d+)\]")


def listening(processes: Iterable[int], proc: Path = PROC, *, here: bool = False) -> set[tuple[str, int]]:
    """Return address and port of each TCP socket on which one of these processes listens.

    The table is that of the process's own network namespace, or with `here` that of this process's: what others reach.
    A process that has ended is skipped.
    """
    found: set[tuple[str, int]] = set()
    for pid in processes:
        inodes = _sockets(proc / str(pid))
        if inodes:
            found |= {
                place for inode, place in _listeners(proc / ("self" if here else str(pid)) / "net") if inode in inodes
            }
    return found


def beyond_loopback(places: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return the listeners that other machines can reach."""
    return {place for place in places if not ip_address(place[0]).is_loopback}


def processes_of(folder: Path, proc: Path = PROC) -> list[int]:
    """Return the processes of the runs below a folder, forked ones of a pool too.

    Those have a log in it as stderr; with them, all that they have started.
    """
    children: dict[int, list[int]] = {}
    for pid in pids(proc):
        if (found := stat(pid, proc)) is not None:
            children.setdefault(found.parent, []).append(pid)
    every = [pid for each in children.values() for pid in each]
    own = [pid for pid in every if _link(proc / str(pid) / "fd" / "2").startswith(f"{folder}/")]
    for pid in own:  # which grows
        own += [each for each in children.get(pid, ()) if each not in own]
    return own


class Listeners:
    """Records in a thread, as a context manager, where the processes of the runs below a folder listen.

    What listens in a network namespace of its own is left out: nothing outside of it can connect.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._stop = folder.resolve(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.seen: set[tuple[str, int]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.seen |= listening(processes_of(self._folder), here=True)


def _sockets(process: Path) -> set[str]:
    """Return the inodes of a process's sockets."""
    try:
        names = os.listdir(process / "fd")  # noqa: PTH208 (as quick as possible: every descriptor of every process)
    except OSError:
        return set()
    links = (SOCKET_LINK.fullmatch(_link(process / "fd" / name)) for name in names)
    return {link[1] for link in links if link}


def _listeners(net: Path) -> list[tuple[str, tuple[str, int]]]:
    """Return inode and place of each listening socket of a network namespace."""
    found = []
    for table in ("tcp", "tcp6"):
        try:
            _, *lines = (net / table).read_text().splitlines()
        except (OSError, ValueError):  # the process has ended, or there is no IPv6
            continue
        rows = (line.split() for line in lines)
        found += [(row[9], _place(row[1])) for row in rows if row[3] == LISTEN]
    return found


def _place(text: str) -> tuple[str, int]:
    """Return address and port of a row: each word of four bytes is written in the order of the machine's memory."""
    address, _, port = text.partition(":")
    words = [bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words)), int(port, 16)


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 (a link in /proc is no path)
    except OSError:
        return ""
