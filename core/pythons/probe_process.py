"""One question to one Python, in a process of its own: started, looked at without waiting, ended for certain.

The interpreter may be anything: one that hangs, crashes, prints rubbish, or no Python at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from core.system.helper_process import HelperProcess, clean_environment
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
SHOWN_CHARACTERS = 120
NAP_S = 0.01
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
        self._process = _start(python, question or {}, variables or {})
        self._deadline = time.monotonic() + timeout_s

    def poll(self) -> Answer | None:
        """Return the answer, or None while there is none. Raises `ValueError` with a sentence if there will be none."""
        process = self._process
        ended = process.exit_code() is not None  # checked before reading, so that nothing it wrote is missed
        try:
            process.receive()
        except ValueError:
            self.close()
            raise ValueError(
                f"{self.python} is no Python: asked for its version, it printed without an end. {REMEDY}"
            ) from None
        if ended:
            self.close()
            return self._judge(process)
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
        """End the process and all that it started."""
        self._process.close()

    def _judge(self, process: HelperProcess) -> Answer:
        answer = _answer(process.output)
        version = answer.get("version")
        how, last_error = process.ending(), _last_line(process.errors)
        if not (isinstance(version, list) and len(version) == 3 and all(isinstance(each, int) for each in version)):
            words = last_error or _last_line(process.output)
            said = f" and printed “{words}”" if words else ""
            if how:
                raise ValueError(
                    f"{self.python} cannot be used: asked for its version, it ended with {how}{said}. {REMEDY}"
                )
            raise ValueError(
                f"{self.python} is no Python: asked for its version, it ended{said or ' without a word'}. {REMEDY}"
            )
        if version >= [3, 8] and "prefix" not in answer:
            raise ValueError(
                f"{self.python} cannot be used: Python {'.'.join(map(str, version))} started and then ended with "
                f"{how or 'no answer'}{f', and printed “{last_error}”' if last_error else ''}. {REMEDY}"
            )
        return answer


def _start(python: str, question: Answer, variables: dict[str, str]) -> HelperProcess:
    _check(python)
    try:
        return HelperProcess(
            [python, "-c", START, str(TELL), json.dumps(question)],
            environment={**clean_environment(), **variables},
            stderr=subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{python} cannot be started: {words}. {REMEDY}") from error


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
