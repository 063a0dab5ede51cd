"""The Python stacks of a process.

A worker of ours prints them on a signal, also while a thread holds the interpreter's lock (`faulthandler`). The stacks
of any other Python process are read by py-spy, where it is installed and may trace the process.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from core.errors import RunError
from core.language import tr
from core.schema.paths import STACKS
from core.system import processes, procfs
from core.system.processes import ProcessId

PRINTED_S, QUIET_S = 2.0, 0.05
"""Seconds that a process has for printing its stacks, and without new output after which they are complete."""
PY_SPY_S = 20.0
MAX_BYTES = 1 << 20
OF_THREADS = frozenset({"_bootstrap", "_bootstrap_inner"})
"""The outermost calls of threads beside the main one."""
FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')
THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+")


class Frame(NamedTuple):
    """One call."""

    file: str
    line: int
    function: str


Stack = tuple[Frame, ...]
"""The calls of a thread, the innermost first."""


def printed_stack(process: ProcessId) -> Stack | None:
    """Return the stack of the main thread of a worker of ours, or of a process that it has forked; None for any other.

    Raises `RunError` if it does not answer.
    """
    found = _printed_to(process.pid)
    if found is None or not procfs.catches(process.pid, signal.SIGRTMAX):
        return None
    try:
        return _printed(process, found)
    except OSError:
        raise RunError(tr("process {pid} has ended", pid=process.pid)) from None


def _printed(process: ProcessId, file: Path) -> Stack:
    """Let a process print its stacks to a file, and return that of its main thread."""
    before = file.stat().st_size
    if not processes.send(process, signal.SIGRTMAX, only_if=lambda: procfs.catches(process.pid, signal.SIGRTMAX)):
        raise RunError(tr("process {pid} has ended, or belongs to another user", pid=process.pid))
    size, changed, until = before, time.monotonic(), time.monotonic() + PRINTED_S
    while time.monotonic() < until:
        time.sleep(QUIET_S / 5)
        if (now := file.stat().st_size) != size:
            size, changed = now, time.monotonic()
        if size == before or time.monotonic() - changed < QUIET_S:
            continue
        with file.open("rb") as opened:
            opened.seek(before)
            stack = main_stack(opened.read(MAX_BYTES).decode(errors="replace"))
        if stack and stack[-1].function not in OF_THREADS:  # else the main thread, the last one, is not printed yet
            return stack
    raise RunError(tr("process {pid} did not tell its stacks in {seconds:g} s", pid=process.pid, seconds=PRINTED_S))


def _printed_to(pid: int) -> Path | None:
    """Return the file in memory to which a process prints its stacks; None if it has none."""
    folder = Path(f"/proc/{pid}/fd")
    try:
        return next((each for each in folder.iterdir() if str(each.readlink()).startswith(f"/memfd:{STACKS}")), None)
    except OSError:
        return None


def main_stack(text: str) -> Stack:
    """Return the stack of the main thread in what `faulthandler` printed: it is the last thread."""
    stacks: list[list[Frame]] = []
    for line in text.splitlines():
        if THREAD.match(line):
            stacks.append([])
        elif stacks and (found := FRAME.match(line)):
            number = int(found["line"]) if found["line"].isdecimal() else 0
            stacks[-1].append(Frame(found["file"], number, _own_name(found["function"])))
    return tuple(stacks[-1]) if stacks else ()


def traced_stack(process: ProcessId) -> Stack:
    """Return the stack of the main thread of a Python process, read by py-spy. Raises `RunError` with the reason."""
    command = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if command is None:
        raise RunError(tr("py-spy is not installed: pip install py-spy"))
    if not processes.is_alive(process):
        raise RunError(tr("process {pid} has ended", pid=process.pid))
    try:
        done = subprocess.run(
            [command, "dump", "--json", "--pid", str(process.pid)], capture_output=True, text=True, timeout=PY_SPY_S,
            check=False,
        )
        threads = json.loads(done.stdout) if done.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        raise RunError(tr("py-spy failed: {error}", error=error)) from None
    if not threads:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        if any("ermission" in line for line in lines):
            raise RunError(tr("py-spy may not trace it. As root: sysctl kernel.yama.ptrace_scope=0"))
        raise RunError(tr("py-spy failed: {error}", error=lines[-1] if lines else done.returncode))
    main = next((each for each in threads if each.get("os_thread_id") == process.pid), threads[-1])
    return tuple(
        Frame(str(each.get("filename")), int(each.get("line") or 0), _own_name(str(each.get("name"))))
        for each in main["frames"]
    )


def _own_name(function: str) -> str:
    """Return the name of a function without those around it: `wrapper` of `logged.<locals>.wrapper`."""
    return function.rpartition(".")[2]
