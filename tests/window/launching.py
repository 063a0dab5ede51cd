"""Start real processes that hold devices in tests."""

import subprocess
import sys

WAITS = "import sys; print(flush=True); sys.stdin.read()"


class Launcher:
    """Starts processes that wait on stdin; `close` kills them."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen] = []

    def __call__(self, code: str = WAITS, *, command: list[str] | None = None, **options) -> subprocess.Popen:
        """Start a process and wait for its first output. `code` is Python code, `command` another program."""
        process = subprocess.Popen(
            command or [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )
        self._started.append(process)
        assert process.stdout is not None
        process.stdout.read(1)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
