"""Start a helper process, exchange lines with it without blocking, and end it with certainty."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from core.language import tr
from core.system import procfs

CHUNK_BYTES = 65536
MAX_BYTES = 4 * 1024 * 1024
"""Default limit of output that was received and not taken yet, in bytes per stream."""
GRACE_S = 1.0
"""Seconds to wait for the end of a process after closing its stdin, after SIGTERM, and after SIGKILL."""
KILLED_S = 60.0
"""Longest wait after SIGKILL for a process that only waits for its turn on a busy machine, in seconds."""
POLL_S = 0.01
"""Seconds between two checks of what is waited for, such as the end of a process."""


def clean_environment(python: str = "") -> dict[str, str]:
    """Return this process's environment without Trainyard's own variables. `python`: see `around`.

    With the tag of a run (`TRAINYARD_RUN`), a helper would be a process of that run and be terminated with it.
    """
    found = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    return around(python, found) if python else found


OF_VENV = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"})
OF_CONDA = frozenset({"CONDA_PREFIX", "CONDA_DEFAULT_ENV"})
"""Variables that name an active environment of Python."""


def around(python: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` as if the environment of an interpreter were active: its folder is first in PATH.

    So `python`, `torchrun` and `accelerate` in a program are those beside the interpreter that was chosen. The order of
    PATH stays where it leads to that interpreter, as to the system's, beside which all programs of the system are.
    """
    chosen = Path(python).absolute()
    prefix, path = chosen.parent.parent, base.get("PATH", os.defpath)
    conda = base.get("CONDA_PREFIX")
    is_of_active = conda is not None and chosen.resolve().parent.parent == Path(conda).resolve()
    dropped = OF_VENV if is_of_active else OF_VENV | OF_CONDA
    found = {name: value for name, value in base.items() if name not in dropped}
    if is_venv := (prefix / "pyvenv.cfg").exists():
        found["VIRTUAL_ENV"] = str(prefix)
    elif (prefix / "conda-meta").is_dir() and not is_of_active:
        found |= {"CONDA_PREFIX": str(prefix), "CONDA_DEFAULT_ENV": prefix.name}
    if is_venv or shutil.which(chosen.name, path=path) != str(chosen):
        others = [each for each in path.split(os.pathsep) if each != str(chosen.parent)]
        found["PATH"] = os.pathsep.join([str(chosen.parent), *others])
    return found


def exit_code(pid: int) -> int | None:
    """Return the exit status of a child, negative for a signal; None while it runs.

    The child is not reaped, so its pid and the id of its group stay its own.
    """
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0  # unknown, as in `subprocess`: this process inherited that SIGCHLD is ignored
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def ends_within(pid: int, timeout_s: float) -> bool:
    """Wait for the end of a child, without reaping it; return False if it still runs after `timeout_s` seconds."""
    return wait_until(lambda: exit_code(pid) is not None, timeout_s)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a condition holds; return False if it still does not after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


class HelperProcess:
    """A child process in a session of its own, so that Ctrl-C in the terminal does not reach it.

    As a context manager it closes itself at the end of the block.
    """

    def __init__(
        self, command: Sequence[str], *, cwd: Path | str | None = "/", environment: Mapping[str, str] | None = None,
        stdin: bool = False, stderr: int = subprocess.DEVNULL, max_bytes: int = MAX_BYTES,
    ) -> None:
        """Start it, by default with the `clean_environment`. Raises `OSError` if the system cannot.

        `stdin`: open a pipe to it; `stderr`: as in `subprocess`, where PIPE fills `errors`.
        """
        self._process = subprocess.Popen(
            command, cwd=cwd, env=clean_environment() if environment is None else environment, bufsize=0,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
            start_new_session=True,
        )
        self.output, self.errors = bytearray(), bytearray()
        """What it wrote to stdout and stderr, as far as `receive` has read it."""
        self._max_bytes = max_bytes
        process = self._process
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        pairs = (process.stdout, self.output), (process.stderr, self.errors)
        self._open = {pipe.fileno(): buffer for pipe, buffer in pairs if pipe is not None}

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""
        return exit_code(self.pid) if self._process.returncode is None else self._process.returncode

    def ending(self) -> str | None:
        """Return how it ended ("" with status 0, "signal SEGV", "exit status 1"); None while it runs."""
        code = self.exit_code()
        if not code:
            return None if code is None else ""
        if code > 0:
            return tr("exit status {code}", code=code)
        names = {number.value: number.name.removeprefix("SIG") for number in signal.Signals}
        return tr("signal {names}", names=names.get(-code, -code))

    def receive(self, timeout_s: float | None = 0.0) -> bool:
        """Read what it has written, waiting up to `timeout_s` seconds (None: without limit) for the first byte.

        Return False once it has closed its ends. Raises `ValueError` if a stream exceeds `max_bytes`.
        """
        if self._open and timeout_s != 0:
            _await_ready(self._open, select.POLLIN, timeout_s)
        for descriptor, buffer in list(self._open.items()):
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(descriptor, CHUNK_BYTES):
                    buffer.extend(chunk)
                    if len(buffer) > self._max_bytes:
                        raise ValueError(
                            tr("A helper process wrote more than {max_bytes} bytes.", max_bytes=self._max_bytes)
                        )
                del self._open[descriptor]
        return bool(self._open)

    def read_lines(self, *, wait: bool = False) -> list[bytes]:
        """Return the complete lines that it has written since the last call. Raises `ValueError` as `receive`.

        `wait`: wait for the first line; then an empty list means that there will be no more.
        """
        while self.receive(None if wait else 0.0) and wait and b"\n" not in self.output:
            pass
        *lines, rest = bytes(self.output).split(b"\n")
        self.output[:] = rest
        return lines

    def send(self, data: bytes, *, wait: bool = False) -> bool:
        """Write to its stdin. Return False if it has ended or, without `wait`, if its pipe is full."""
        assert self._process.stdin is not None
        descriptor, rest = self._process.stdin.fileno(), memoryview(data)
        try:
            while rest:
                if wait:
                    _await_ready([descriptor], select.POLLOUT, None)
                rest = rest[os.write(descriptor, rest) :]
        except (BlockingIOError, BrokenPipeError):
            return False
        return True

    def send_some(self, data: bytes | bytearray) -> int:
        """Write to its stdin as much as fits without waiting; return the number of bytes. 0 also if it has ended."""
        assert self._process.stdin is not None
        try:
            return os.write(self._process.stdin.fileno(), data)
        except (BlockingIOError, BrokenPipeError):
            return 0

    def end_input(self) -> None:
        """Close its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, timeout_s: float | None = None) -> int:
        """Read until it has ended and return its exit status. Raises `TimeoutError`, and `ValueError` as `receive`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (code := self.exit_code()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
            if not self.receive(POLL_S):
                time.sleep(POLL_S)
        self.receive()
        return code

    def kill(self) -> None:
        """Send SIGKILL to it and its group, without waiting for the end."""
        self._signal(signal.SIGKILL)

    def close(self, *, polite: bool = False) -> None:
        """End it and its group, and wait for it; do nothing if that was done before.

        `polite`: first wait for it to end after closing its stdin, then after SIGTERM. A process that waits inside the
        kernel does not even react to SIGKILL: it is given up, and ends when the kernel lets it go.
        """
        if self._process.stdin is not None:
            self._process.stdin.close()
        if polite and self._process.returncode is None and not ends_within(self.pid, GRACE_S):
            self._signal(signal.SIGTERM)
            ends_within(self.pid, GRACE_S)
        self.kill()
        deadline = time.monotonic() + KILLED_S
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
                break
            if (found := procfs.stat(self.pid)) is None or found.state == procfs.STUCK:
                break
        for pipe in self._pipes:
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:  # not reaped yet, so the group cannot be another's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _await_ready(descriptors: Iterable[int], event: int, timeout_s: float | None) -> None:
    poller = select.poll()
    for each in descriptors:
        poller.register(each, event)
    poller.poll(None if timeout_s is None else timeout_s * 1000)
