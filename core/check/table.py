"""All checks, one row each, and their results as text."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from core.catalog.frameworks import FRAMEWORKS
from core.check import gpu_work, machine, trainings
from core.check.check import Check, Level, Result, Scope, State
from core.language import tr, tr_noop, tr_plural
from core.system.installation import version
from core.system.processes import user_name
from core.table import Column, Table
from core.text import join_phrases, size

QUICK, WORK, FULL = Level
CHECKS: tuple[Check, ...] = (
    Check("driver", QUICK, tr_noop("NVIDIA driver"), machine.driver,
          tr_noop("kernel module and library of one version, not too old")),
    Check("census", QUICK, tr_noop("number of GPUs"), machine.census,
          tr_noop("as many on the bus as with NVML, with device files that may be opened")),
    Check("order", QUICK, tr_noop("CUDA shows what is chosen"), machine.order,
          tr_noop("each GPU alone, and all in their order")),
    Check("memory-api", QUICK, tr_noop("figures of memory"), machine.memory_api,
          tr_noop("used + free + reserved = total")),
    Check("health", QUICK, tr_noop("health of the GPUs"), machine.health,
          tr_noop("no recovery needed, no memory errors, usual modes")),
    Check("latency", QUICK, tr_noop("cost of a reading"), machine.latency,
          tr("at most {load:g} ms for load, {lists:g} ms for processes", load=machine.SLOW_LOAD_MS,
             lists=machine.SLOW_LISTS_MS)),
    Check("kernel-log", QUICK, tr_noop("Xid errors in the kernel's log"), machine.kernel_log,
          tr_noop("no error of the hardware since the start of the system")),
    Check("frameworks", QUICK, tr_noop("frameworks and GPUs"), machine.frameworks,
          tr_noop("a build with code for each GPU")),
    Check("surroundings", QUICK, tr_noop("limits of this system"), machine.surroundings,
          tr("at least {size} of shared memory and {files} open files", files=machine.OPEN_FILES,
             size=size(machine.SHARED_MEMORY_BYTES))),
    Check("accounting", WORK, tr_noop("memory of a program"), gpu_work.accounting,
          tr_noop("the driver counts what a program has written to")),
    Check("release", WORK, tr_noop("memory comes back"), gpu_work.release,
          tr("at most {seconds:g} s after the end, and after SIGKILL", seconds=gpu_work.BACK_S)),
    Check("numbers", WORK, tr_noop("the GPUs compute rightly"), gpu_work.numbers,
          tr_noop("small errors of rounding, and equal bits when repeated")),
    Check("speed", WORK, tr_noop("speed"), gpu_work.speed,
          tr("GPUs of one model within {share:.0%} of each other", share=gpu_work.ALIKE)),
    Check("link", WORK, tr_noop("PCIe link under load"), gpu_work.link,
          tr_noop("the generation and the lanes that card and slot have")),
    Check("energy", WORK, tr_noop("counter of energy"), gpu_work.energy,
          tr("within {share:.0%} of the sum of the power", share=gpu_work.ENERGY_SHARE)),
    Check("ipc", WORK, tr_noop("memory that processes share"), gpu_work.ipc,
          tr_noop("one process reads what another has written, on each GPU and between them")),
    Check("p2p-values", WORK, tr_noop("sum over devices"), gpu_work.collective,
          tr_noop("every element right, with direct access between GPUs")),
    *(Check(f"train-{row.id}", FULL, tr("strategies of {framework}", framework=row.title),
            partial(trainings.strategies, row.id), tr_noop("the curve of one device")) for row in FRAMEWORKS),
    Check("pause", FULL, tr_noop("pause and resume"), trainings.pause,
          tr_noop("the curve of a training without a pause")),
    Check("kills", FULL, tr_noop("killed processes"), trainings.kills,
          tr_noop("nothing is left, and the memory comes back")),
    Check("hang", FULL, tr_noop("a worker that hangs"), trainings.hang, tr_noop("it is named, with its line")),
    Check("memory", FULL, tr_noop("too little memory"), trainings.memory, tr_noop("the failure says so")),
    Check("watching", FULL, tr_noop("cost of watching"), trainings.watching,
          tr("at least {share:g} of the speed by hand", share=trainings.WATCHED)),
)

WORDS = {State.PASS: tr_noop("pass"), State.PROBLEM: tr_noop("problem"), State.COULD_NOT: tr_noop("could not look"),
         State.NOT_APPLICABLE: tr_noop("not applicable")}
COLUMNS: tuple[Column[Result], ...] = (
    Column("id", lambda each: each.check.id, None),
    Column("check", text=lambda each: tr(each.check.asks)),
    Column("state", lambda each: each.state.value, "result", lambda each: tr(WORDS[each.state])),
    Column("value", lambda each: each.value, "seen"),
    Column("expected", lambda each: tr(each.check.expected), None),
    Column("remedy", lambda each: each.remedy or None, None),
    Column("seconds", lambda each: round(each.seconds, 3), None),
    Column("devices", lambda each: [device.id for device in each.devices], None),
)


def chosen(level: Level) -> list[Check]:
    """Return the checks of a level."""
    return [check for check in CHECKS if check.level <= level]


def closing_line(results: Sequence[Result]) -> str:
    """Return how many checks came to what, and what that does not say."""
    counts = Counter(each.state for each in results)
    parts = [
        tr("{count} passed", count=counts[State.PASS]),
        tr_plural("{count} problem", "{count} problems", counts[State.PROBLEM]),
        tr("{count} could not be looked at", count=counts[State.COULD_NOT]),
        tr("{count} not applicable", count=counts[State.NOT_APPLICABLE]),
    ]
    return tr("{parts}. This says nothing about what is not listed.", parts=join_phrases(parts))


def document(results: Sequence[Result]) -> dict[str, object]:
    """Return the results for programs."""
    counts = Counter(each.state for each in results)
    return {"checks": Table(COLUMNS, results).documents(), "counts": {state.value: counts[state] for state in State}}


def page(scope: Scope, results: Sequence[Result]) -> str:
    """Return the results as a page: date, machine, versions, rows. Names, paths and serial numbers are left out."""
    names = Counter(device.name for device in scope.devices)
    head = [time.strftime("%Y-%m-%d"), f"Trainyard {version()}", f"Python {platform.python_version()}",
            f"{platform.system()} {platform.release()}", *(f"{count} × {name}" for name, count in names.items())]
    notes = [closing_line(results), *(f"{tr(each.check.asks)}: {each.remedy}" for each in results if each.remedy)]
    return without_names(f"{', '.join(head)}\n\n{Table(COLUMNS, results, notes, capitals=False).markdown()}")


_END = r"\s/,;:\"'“”()|，；：。（）、"
UUID = re.compile(r"\b((?:GPU|MIG)-[0-9a-f]{8})(?:-[0-9a-f]{2,12})+(?:/\d+/\d+)?", re.IGNORECASE)
PATH = re.compile(rf"(?<![a-zA-Z0-9_.:/])(?:file:/+|~?/)(?!dev/|proc/)(?:[^{_END[2:]}\n]*/)*[^{_END}]+/?")
"""A path, whose folders may have spaces; not those of /dev and /proc, which are the same on all machines."""
USER, RUN = re.compile(r"(\bpid \d+ [^()\n]+) \([^()\n]+\)"), re.compile(r"\b(\d{8}-\d{6})-[\w.-]+-([0-9a-f]{4})\b")
"""A process and whose it is, and the folder of a run with the name that it was given."""
ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\b[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4}){3,}\b", re.IGNORECASE)
"""An address of IPv4 or IPv6, or of a network card."""


def without_names(text: str) -> str:
    """Return a text without names of users and hosts, paths, and the second half of UUIDs."""
    for folder in sorted({os.path.expanduser("~"), sys.prefix, sys.base_prefix}, key=len, reverse=True):  # noqa: PTH111
        if len(folder) > 1:
            text = re.sub(rf"{re.escape(folder)}(?=/|\b)", "~", text)
    for pattern, instead in ((UUID, r"\1…"), (PATH, "…"), (ADDRESS, "…"), (USER, r"\1"), (RUN, r"\1-…-\2")):
        text = pattern.sub(instead, text)
    host, user = socket.gethostname(), user_name(os.getuid())
    for name, instead in ((host, tr("HOST")), (host.partition(".")[0], tr("HOST")), (user, tr("USER"))):
        if name not in ("", "root"):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", instead, text)
    return text
