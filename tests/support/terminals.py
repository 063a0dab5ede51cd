"""Run a command on a terminal of its own."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.commands import ROOT
from tests.support.waiting import wait_until


@dataclass
class Terminal:
    """Our end of a terminal, and the command on it."""

    end: int
    process: subprocess.Popen[bytes]

    def read_until(self, words: str) -> str:
        """Return what was written up to these words, or a little more."""
        found = b""

        def has_words() -> bool:
            nonlocal found
            found += os.read(self.end, 65536)
            return words.encode() in found

        wait_until(has_words, words)
        return found.decode()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, as by dragging the border of the window."""
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextlib.contextmanager
def on_a_terminal(*arguments: object, rows: int, columns: int) -> Iterator[Terminal]:
    """Start a command on a terminal of this size, and kill it if it has not ended."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "core.cli", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with subprocess.Popen(command, cwd=ROOT, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            os.close(ours)
