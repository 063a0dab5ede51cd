"""One helper process, as its client has it: started, read without waiting, ended for certain."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOME = Path(__file__).parents[2]  # the folder that holds `core`, so that a user's own `core` is never found
CHUNK_BYTES = 65536
SIGNALS = {number.value: number.name.removeprefix("SIG") for number in signal.Signals}
GRACE_S = 1.0  # for each of: the end of its stdin, SIGTERM, SIGKILL


class HelperProcess:
    """A child process that writes lines."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it. Raises `OSError` when the system cannot."""
        self._process = subprocess.Popen(
            command,
            cwd=HOME,
            env=_environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal is for the client alone
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._torn = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def fileno(self) -> int:
        """For `select`: readable when there may be lines."""
        return self._stdout.fileno()

    def ending(self) -> str | None:
        """How it ended ("" by itself, "signal SEGV", "exit status 1"); None while it runs."""
        return ending_words(self._process.poll())

    def read_lines(self) -> list[bytes]:
        """The lines that are complete by now."""
        data = self._torn
        while chunk := self._read():
            data += chunk
        *lines, self._torn = data.split(b"\n")
        return lines

    def send(self, line: bytes) -> None:
        """Write a line to its stdin, if it is there to take it."""
        try:
            os.write(self._stdin.fileno(), line)
        except (BlockingIOError, BrokenPipeError):
            return  # it hangs or has ended: the next one is told at its start

    def kill(self) -> None:
        """End it the hard way, without waiting until it has ended."""
        self._process.kill()

    def close(self) -> None:
        """End it and wait for it. One that has ended already is only cleaned up after."""
        self._stdin.close()
        for end in (self._process.terminate, self._process.kill, _give_up):
            try:
                self._process.wait(GRACE_S)
                break
            except subprocess.TimeoutExpired:
                end()
        self._stdout.close()

    def _read(self) -> bytes:
        try:
            return os.read(self._stdout.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return b""


def _give_up() -> None:
    """It sits in the kernel, out of reach of any signal; it ends when the driver lets go of it."""


def ending_words(returncode: int | None) -> str | None:
    """How a process ended ("" by itself, "signal SEGV", "exit status 1"); None while it runs."""
    if returncode is None or returncode == 0:
        return None if returncode is None else ""
    if returncode > 0:
        return f"exit status {returncode}"
    return f"signal {SIGNALS.get(-returncode, -returncode)}"


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    # A run's tag would make the helper a process of that run, to be ended with it; PYTHONSAFEPATH would
    # hide the folder it is started in.
    return {
        name: value
        for name, value in inherited.items()
        if not name.startswith("TRAINYARD_") and name != "PYTHONSAFEPATH"
    }
