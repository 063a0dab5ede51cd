"""All checks, one row each, and their results as text."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence

from core.catalog.frameworks import FRAMEWORKS
from core.check import gpu_work, machine, trainings
from core.check.check import Check, Level, Result, Scope, State
from core.language import tr, tr_noop, tr_plural
from core.system.installation import version
from core.table import Column, Table
from core.text import join_phrases, size

CHECKS: tuple[Check, ...] = (
    Check(id="driver", level=Level.QUICK, asks=tr_noop("NVIDIA driver"), look=machine.driver,
          expected=tr_noop("kernel module and library of one version, not too old")),
    Check(id="census", level=Level.QUICK, asks=tr_noop("number of GPUs"), look=machine.census,
          expected=tr_noop("as many on the bus as with NVML, with device files that may be opened")),
    Check(id="order", level=Level.QUICK, asks=tr_noop("CUDA shows what is chosen"), look=machine.order,
          expected=tr_noop("each GPU alone, and all in their order")),
    Check(id="memory-api", level=Level.QUICK, asks=tr_noop("figures of memory"), look=machine.memory_api,
          expected=tr_noop("used + free + reserved = total")),
    Check(id="health", level=Level.QUICK, asks=tr_noop("health of the GPUs"), look=machine.health,
          expected=tr_noop("no recovery needed, no memory errors, usual modes")),
    Check(id="latency", level=Level.QUICK, asks=tr_noop("cost of a reading"), look=machine.latency,
          expected=tr("at most {load:g} ms for load, {lists:g} ms for processes", load=machine.SLOW_LOAD_MS,
                      lists=machine.SLOW_LISTS_MS)),
    Check(id="kernel-log", level=Level.QUICK, asks=tr_noop("Xid errors in the kernel's log"), look=machine.kernel_log,
          expected=tr_noop("no error of the hardware since the start of the system")),
    Check(id="frameworks", level=Level.QUICK, asks=tr_noop("frameworks and GPUs"), look=machine.frameworks,
          expected=tr_noop("a build with code for each GPU")),
    Check(id="surroundings", level=Level.QUICK, asks=tr_noop("limits of this system"), look=machine.surroundings,
          expected=tr("at least {size} of shared memory and {files} open files", files=machine.OPEN_FILES,
                      size=size(machine.SHARED_MEMORY_BYTES))),
    Check(id="accounting", level=Level.WORK, asks=tr_noop("memory of a program"), look=gpu_work.accounting,
          expected=tr_noop("the driver counts what a program has written to")),
    Check(id="release", level=Level.WORK, asks=tr_noop("memory comes back"), look=gpu_work.release,
          expected=tr("at most {seconds:g} s after the end, and after SIGKILL", seconds=gpu_work.BACK_S)),
    Check(id="numbers", level=Level.WORK, asks=tr_noop("the GPUs compute rightly"), look=gpu_work.numbers,
          expected=tr_noop("small errors of rounding, and equal bits when repeated")),
    Check(id="speed", level=Level.WORK, asks=tr_noop("speed"), look=gpu_work.speed,
          expected=tr("GPUs of one model within {share:.0%} of each other", share=gpu_work.ALIKE)),
    Check(id="link", level=Level.WORK, asks=tr_noop("PCIe link under load"), look=gpu_work.link,
          expected=tr_noop("the generation and the lanes that card and slot have")),
    Check(id="energy", level=Level.WORK, asks=tr_noop("counter of energy"), look=gpu_work.energy,
          expected=tr("within {share:.0%} of the sum of the power", share=gpu_work.ENERGY_SHARE)),
    Check(id="p2p-values", level=Level.WORK, asks=tr_noop("sum over devices"), look=gpu_work.collective,
          expected=tr_noop("every element right, with direct access between GPUs")),
    *(
        Check(id=f"train-{row.id}", level=Level.FULL, asks=tr("strategies of {framework}", framework=row.title),
              look=trainings.strategies_of(row.id), expected=tr_noop("the curve of one device"))
        for row in FRAMEWORKS
    ),
    Check(id="pause", level=Level.FULL, asks=tr_noop("pause and resume"), look=trainings.pause,
          expected=tr_noop("the curve of a training without a pause")),
    Check(id="kills", level=Level.FULL, asks=tr_noop("killed processes"), look=trainings.kills,
          expected=tr_noop("nothing is left, and the memory comes back")),
    Check(id="memory", level=Level.FULL, asks=tr_noop("too little memory"), look=trainings.memory,
          expected=tr_noop("the failure says so")),
    Check(id="watching", level=Level.FULL, asks=tr_noop("cost of watching"), look=trainings.watching,
          expected=tr("at least {share:g} of the speed by hand", share=trainings.WATCHED)),
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
    counts = Counter(each.state.value for each in results)
    return {
        "checks": Table(COLUMNS, results).documents(),
        "counts": {state.value: counts[state.value] for state in State},
    }


def page(scope: Scope, results: Sequence[Result]) -> str:
    """Return the results as a page: date, machine, versions, rows. Names, paths and serial numbers are left out."""
    names = Counter(device.name for device in scope.devices)
    head = [
        time.strftime("%Y-%m-%d"), f"Trainyard {version()}", f"Python {platform.python_version()}",
        f"{platform.system()} {platform.release()}", *(f"{count} × {name}" for name, count in names.items()),
    ]
    notes = [closing_line(results), *(f"{tr(each.check.asks)}: {each.remedy}" for each in results if each.remedy)]
    return without_names(f"{', '.join(head)}\n\n{Table(COLUMNS, results, notes, capitals=False).markdown()}")


_END = r"\s/,;:\"'“”()|，；：。（）、"
UUID = re.compile(r"\b((?:GPU|MIG)-[0-9a-f]{8})(?:-[0-9a-f]{2,12})+(?:/\d+/\d+)?", re.IGNORECASE)
PATH = re.compile(rf"(?<![a-zA-Z0-9_.:/])(?:file:/+|~?/)(?!dev/|proc/)(?:[^{_END[2:]}\n]*/)*[^{_END}]+/?")
"""A path, whose folders may have spaces; not those of /dev and /proc, which are the same on all machines."""
ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\b[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4}){3,}\b", re.IGNORECASE)
"""An address of IPv4 or IPv6, or of a network card."""


def without_names(text: str) -> str:
    """Return a text without names of users and hosts, paths, and the second half of UUIDs."""
    for folder in sorted({os.path.expanduser("~"), sys.prefix, sys.base_prefix}, key=len, reverse=True):  # noqa: PTH111
        if len(folder) > 1:
            text = re.sub(rf"{re.escape(folder)}(?=/|\b)", "~", text)
    for pattern, instead in ((UUID, r"\1…"), (PATH, "…"), (ADDRESS, "…")):
        text = pattern.sub(instead, text)
    host, user = socket.gethostname(), _user()
    for name, instead in ((host, tr("HOST")), (host.partition(".")[0], tr("HOST")), (user, tr("USER"))):
        if name not in ("", "root"):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", instead, text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
