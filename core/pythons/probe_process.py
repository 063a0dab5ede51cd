"""One question to one Python, in a process of its own: started, looked at without waiting, ended for certain.

The interpreter may be anything: one that hangs, crashes, prints rubbish, or no Python at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from core.system.helper_process import ending_words
from core.text import replace_control_characters

TELL = Path(__file__).with_name("probe.py")
MARK = b"trainyard-answer:"
START = (
    "import sys\n"
    # The working folder is no part of the path: a `json.py` in it is the user's.
    "sys.path[:] = [each for each in sys.path if each]\n"
    "sys.stdout.write('\\ntrainyard-answer:{\"version\": [%d, %d, %d]}\\n' % tuple(sys.version_info[:3]))\n"
    "sys.stdout.flush()\n"
    "if sys.version_info >= (3, 8): exec(compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec'))\n"
)
"""Runs `probe.py`, under a Python that can; tells the version first, in words that Python 2 understands, too."""
TIMEOUT_S = 5.0
MAX_BYTES = 4 * 1024 * 1024
"""Whoever prints more than that is no Python that was asked a question."""
CHUNK_BYTES = 65536
SHOWN_CHARACTERS = 120
NAP_S = 0.01
GRACE_S = 1.0  # after SIGKILL
REMEDY = "Choose another Python; `trainyard pythons` lists those of this machine."

Answer = dict[str, Any]


class PythonProbe:
    """A question that is on its way. `close` it in any case: it then leaves no process."""

    def __init__(
        self,
        python: str,
        question: Answer | None = None,
        *,
        variables: dict[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Ask; `variables` come on top of this process's environment.

        Raises `ValueError` with a sentence where this is nothing that can be started.
        """
        self.python = python
        self._timeout_s = timeout_s
        self._said = {1: bytearray(), 2: bytearray()}
        self._process: subprocess.Popen[bytes] | None = _start(python, question or {}, variables or {})
        self._deadline = time.monotonic() + timeout_s

    def poll(self) -> Answer | None:
        """The answer; None while there is none yet. Raises `ValueError` with a sentence when there will be none."""
        process = self._process
        assert process is not None, "an inquiry is polled until it has answered, and no longer"
        ended = _has_ended(process)
        if self._read(process) > MAX_BYTES:
            self.close()
            raise ValueError(f"{self.python} is no Python: asked for its version, it printed without an end. {REMEDY}")
        if ended:
            self.close()
            return self._judge(process.returncode)
        if time.monotonic() > self._deadline:
            self.close()
            raise ValueError(
                f"{self.python} did not say within {self._timeout_s:g} s which Python it is. "
                "Start it in a terminal to see what it waits for, or choose another; "
                "`trainyard pythons` lists those of this machine."
            )
        return None

    def wait(self) -> Answer:
        """The answer, waited for. Raises `ValueError` with a sentence."""
        try:
            while (answer := self.poll()) is None:
                time.sleep(NAP_S)
        finally:
            self.close()
        return answer

    def close(self) -> None:
        """End it and all that it started, if it has not ended."""
        process, self._process = self._process, None
        if process is None:
            return
        # Not waited for yet, so the number of its group is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it sits in the kernel, on a folder that does not answer
            process.wait(GRACE_S)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()

    def _read(self, process: subprocess.Popen[bytes]) -> int:
        """Take in what it has printed; returns how many bytes there are by now."""
        for number, stream in ((1, process.stdout), (2, process.stderr)):
            assert stream is not None
            with contextlib.suppress(BlockingIOError):
                while len(self._said[number]) <= MAX_BYTES and (chunk := os.read(stream.fileno(), CHUNK_BYTES)):
                    self._said[number] += chunk
        return max(map(len, self._said.values()))

    def _judge(self, returncode: int) -> Answer:
        answer = _answer(self._said[1])
        version = answer.get("version")
        if not (isinstance(version, list) and len(version) == 3 and all(isinstance(each, int) for each in version)):
            how, words = ending_words(returncode), _last_line(self._said[2]) or _last_line(self._said[1])
            said = f" and printed “{words}”" if words else ""
            if how:
                raise ValueError(
                    f"{self.python} cannot be used: asked for its version, it ended with {how}{said}. {REMEDY}"
                )
            raise ValueError(
                f"{self.python} is no Python: asked for its version, it ended{said or ' without a word'}. {REMEDY}"
            )
        if version >= [3, 8] and "prefix" not in answer:
            words = _last_line(self._said[2])
            raise ValueError(
                f"{self.python} cannot be used: Python {'.'.join(map(str, version))} started and then ended with "
                f"{ending_words(returncode) or 'no answer'}{f', and printed “{words}”' if words else ''}. {REMEDY}"
            )
        return answer


def _start(python: str, question: Answer, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    _check(python)
    # A run's tag would make it a process of that run, to be ended with it.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    try:
        process = subprocess.Popen(
            [python, "-c", START, str(TELL), json.dumps(question)],
            cwd="/",
            env={**inherited, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a group of its own, to be ended with all that it starts
        )
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{python} cannot be started: {words}. {REMEDY}") from error
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        os.set_blocking(stream.fileno(), False)
    return process


def _check(python: str) -> None:
    """Raises `ValueError` with a sentence for what is no program."""
    path = Path(python)
    try:
        is_folder, is_there, is_link = path.is_dir(), path.exists(), path.is_symlink()
    except (OSError, ValueError):
        raise ValueError(f"{python!r} cannot be the path of a Python. {REMEDY}") from None
    if is_folder:
        raise ValueError(
            f"{python} is a folder, not a Python. Name the interpreter in it, such as {path / 'bin/python'}."
        )
    if not is_there and is_link:
        raise ValueError(
            f"{python} is a link to {path.readlink()}, which is gone: the Python of this environment was removed. "
            f"Make the environment anew. {REMEDY}"
        )
    if not is_there:
        raise ValueError(f"There is no Python at {python}. {REMEDY}")
    if not os.access(path, os.X_OK):
        raise ValueError(f"{python} may not be executed. Allow it (chmod +x), if it is a Python. {REMEDY}")


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has, without taking its number from it: what it left behind is found by that."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _answer(said: bytearray) -> Answer:
    """All that stands behind the mark, put together; what else was printed (by a `.pth` file, say) is passed over."""
    answer: Answer = {}
    for line in said.split(b"\n"):
        if line.startswith(MARK):
            with contextlib.suppress(ValueError, RecursionError):
                told = json.loads(line.removeprefix(MARK))
                answer.update(told if isinstance(told, dict) else {})
    return answer


def _last_line(said: bytearray) -> str:
    lines = said[-4 * SHOWN_CHARACTERS :].decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return replace_control_characters(words)[-SHOWN_CHARACTERS:]
