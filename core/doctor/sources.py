"""What is looked at beside stacks: NCCL's own report about a run (RAS), and the kernel's log.

NCCL says how many collectives each rank has launched, not how many have finished. The protocol and the fields are those
of `src/ras/client_support.cc` of NCCL 2.24.3 to 2.30.7. JSON came with 2.28.7, which forgets a comma in
`missing_ranks`, as 2.28.9 does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path

from core.errors import RunError
from core.language import tr
from core.launchers.local import RAS
from core.runs.facts import RunFacts
from core.system import procfs
from core.text import first_names, join_phrases

QUESTION = b"SET FORMAT json\nTIMEOUT 2\nSTATUS\n"  # so many seconds for the other processes
FIRST_S, REPORT_S, TRIES, MAX_BYTES = 1.0, 5.0, 4, 16 << 20
NO_COMMA = re.compile(r'("nvml_dev": -?\d+)(\s+"status")')
Counts = dict[str, dict[tuple[int, int], tuple[int, ...]]]
"""By communicator, and by pid and rank: how many collectives of each kind were launched; none without an answer."""
XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<place>[^)]*)\): (?P<number>\d+)")
KILLED = re.compile(r"[Oo]ut of memory: Killed process (?P<pid>\d+) \((?P<name>[^)\n]*)\)")
"""What `mm/oom_kill.c` of the kernel writes, also for the limit of a control group."""
AT = re.compile(r"\d+,\d+,(\d+),")  # the microseconds of a record of /dev/kmsg


def collectives(pid: int) -> Counts | None:
    """Return what NCCL reports about the run of a process; None without an address, as without GPUs."""
    address, is_on = (procfs.variable(procfs.variables(pid), name) for name in RAS)
    if is_on == "0":
        raise RunError(tr("{variable} switches its reports off", variable=f"{RAS[1]}=0"))
    return parsed(ask(address)) if address else None


def ask(address: str) -> str:
    """Return NCCL's report at an address `host:port`. Raises `RunError`."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + REPORT_S
    # All processes of a run listen at this port, and the system chooses one: a stopped one lets connect, and is silent.
    for _ in range(TRIES):
        answer = b""
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=FIRST_S) as connection:
                connection.sendall(QUESTION)
                while len(answer) < MAX_BYTES and time.monotonic() < until and (part := connection.recv(1 << 16)):
                    answer += part
                    connection.settimeout(max(0.01, until - time.monotonic()))
            return answer.decode(errors="replace")
        except (OSError, ValueError, OverflowError) as error:
            why = str(error)
    raise RunError(tr("nothing answers at {address} ({why}). NCCL does since 2.24, once ranks have met",
                      address=address, why=why))


def parsed(report: str) -> Counts:
    """Take a report of NCCL apart. Raises `RunError` for one that has no JSON, or is damaged."""
    if not report.startswith("OK\n"):  # but `ERROR: Unknown command SET FORMAT json`, and the report as a text
        raise RunError(tr("this NCCL reports without JSON, which it has since 2.28.7"))
    try:
        return {
            f"{each['hash']} {each['secondary_hash']}": {
                (int(one["pid"]), int(one["rank"])): tuple(map(int, one.get("collective_counts", {}).values()))
                for one in (*each["ranks"], *each["missing_ranks"])
            }
            for each in json.loads(NO_COMMA.sub(r"\1,\2", report[report.index("{") :]))["communicators"]
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise RunError(tr("NCCL's report is damaged")) from None


def behind(first: Counts, last: Counts, world: int) -> set[tuple[int, int]]:
    """Return pid and rank where fewer collectives were launched than by most others, and none between two reports.

    The rank is -1 in communicators of less than `world` ranks.
    """
    found = set[tuple[int, int]]()
    for name, members in last.items():
        most = tuple(map(max, zip(*filter(None, members.values()), strict=False)))
        late = {member for member, launched in members.items() if launched != most}
        if members == first.get(name) and len({pid for pid, _ in members}) == len(members) >= 2 * len(late):
            found |= {(pid, rank if len(members) == world else -1) for pid, rank in late}
    return found


def kernel_messages(root: Path, since: float = 0.0) -> str:
    """Return the kernel's messages from a time in Unix seconds, as far as they are kept. Raises `RunError`."""
    records = list[bytes]()
    with contextlib.suppress(OSError), (root / "dev/kmsg").open("rb", buffering=0) as ring:
        os.set_blocking(ring.fileno(), False)
        while not records or records[-1]:  # a record for each call until there is no more
            with contextlib.suppress(BrokenPipeError):  # records that were overwritten
                records.append(ring.read(8192) or b"")
    if any(records):
        lines = b"".join(records).decode(errors="replace").splitlines()
        after_us = 1e6 * (time.monotonic() - time.time() + since)
        return "\n".join(line for line in lines if (at := AT.match(line)) and int(at[1]) >= after_us)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["journalctl", "--dmesg", "--boot", "--output=cat", "--quiet", "--no-pager", f"--since=@{since:.0f}"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=3.0, check=True)
        if done.stdout or (since and kernel_messages(root)):
            return done.stdout
    raise RunError(tr("this user may not read the kernel's log. To look: sudo dmesg | grep -i xid"))


def kernel_words(facts: RunFacts, root: Path = Path("/")) -> str:
    """Return what the kernel has logged since the start of a run that can end or hold it. Raises `RunError`."""
    messages = kernel_messages(root, facts.started or time.time())
    buses = " ".join(str(each.get("pci_bus_id")).lower() for each in facts.devices.values())
    words = [tr("Xid {number} at {place}", number=each["number"], place=each["place"])
             for each in XID.finditer(messages) if each["place"].lower() in buses]
    words += [tr("process {pid} ({name}) was ended for lack of memory", pid=each["pid"], name=each["name"])
              for each in KILLED.finditer(messages)]
    return join_phrases(first_names(list(dict.fromkeys(words))))
