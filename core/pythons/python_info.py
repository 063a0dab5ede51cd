"""Ask a Python about itself, in a helper process that runs `probe.py` under it.

The interpreter may be anything: one that hangs, crashes, prints rubbish, or no Python at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.language import tr, tr_noop
from core.schema.files import parse_json, read_whole, write_whole
from core.system.folders import cache_folder, make_cache_folder
from core.system.helper_process import HelperProcess, clean_environment
from core.text import replace_control_characters

MIN_FOR_SCRIPTS = (3, 8)
MIN_FOR_RECIPES = (3, 10)
PROBE = Path(__file__).with_name("probe.py")
MARK = b"trainyard-answer:"
START = (
    "import sys\n"
    # The working folder is not on the path: a `json.py` in it is the user's.
    "sys.path[:] = [each for each in sys.path if each]\n"
    "sys.stdout.write('\\ntrainyard-answer:{\"version\": [%d, %d, %d]}\\n' % tuple(sys.version_info[:3]))\n"
    "sys.stdout.flush()\n"
    "if sys.version_info >= (3, 8): exec(compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec'))\n"
)
"""A program that even Python 2 can run: print the version, then run `probe.py` if this Python is new enough."""
TIMEOUT_S = 5.0
POLL_S = 0.01
"""Seconds between two polls in `PythonProbe.wait`."""
SHOWN_CHARACTERS = 120
REMEDY = tr_noop("Choose another Python; `trainyard pythons` lists those of this machine.")

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An installed framework."""

    version: str | None
    """None if its metadata do not contain it."""
    cuda: bool | None
    """Whether this build can use CUDA; None if unknown, and for Keras, where it depends on the backend."""
    architectures: tuple[str, ...] = ()
    """The architectures that it has code for (`sm_86`, `compute_90`); empty if unknown."""
    libraries: bool | None = None
    """Whether a build with CUDA finds cuDNN; None if unknown, and for PyTorch, whose packages bring it."""

    def with_architectures(self, answer: object) -> Package:
        """Return it with the architectures of an answer, which may be anything."""
        names = [each for each in answer if isinstance(each, str)] if isinstance(answer, list) else []
        return replace(self, architectures=tuple(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonInfo:
    """What a Python reported about itself. Before Python 3.8 only the version is known."""

    path: str
    version: tuple[int, int, int]
    prefix: str = ""
    implementation: str = ""
    torch: Package | None = None
    tensorflow: Package | None = None
    keras: Package | None = None
    pip: bool = False
    """Whether packages can be installed with `python -m pip`."""

    def package(self, name: str) -> Package | None:
        """Return what it has of `torch`, `tensorflow` or `keras`."""
        return {"torch": self.torch, "tensorflow": self.tensorflow, "keras": self.keras}[name]

    def install_command(self, names: str) -> str:
        """Return the shell's command that installs packages there. `names`: also options of pip."""
        path = shlex.quote(self.path)
        return f"{path} -m pip install {names}" if self.pip else f"uv pip install --python {path} {names}"

    @property
    def title(self) -> str:
        """Such as `Python 3.11.7`, or `Python 3.10.14 (pypy)`."""
        other = f" ({self.implementation})" if self.implementation not in {"", "cpython"} else ""
        return tr("Python {version}{other}", version=".".join(map(str, self.version)), other=other)

    def too_old(self, min_version: tuple[int, int] = MIN_FOR_SCRIPTS) -> str | None:
        """Return a sentence if it is older than the minimum (`MIN_FOR_SCRIPTS`, `MIN_FOR_RECIPES`), else None."""
        if self.version[:2] >= min_version:
            return None
        sentence = (
            tr("{path} is {title}, and recipes need Python {least} or later. {remedy}")
            if min_version == MIN_FOR_RECIPES
            else tr("{path} is {title}, and scripts need Python {least} or later. {remedy}")
        )
        least = ".".join(map(str, min_version))
        return sentence.format(path=self.path, title=self.title, least=least, remedy=tr(REMEDY))


def parse_info(path: str, answer: Mapping[str, Any]) -> PythonInfo:
    major, minor, micro = answer["version"]
    return PythonInfo(
        path=path,
        version=(major, minor, micro),
        prefix=str(answer.get("prefix", "")),
        implementation=str(answer.get("implementation", "")),
        torch=_package(answer.get("torch")),
        tensorflow=_package(answer.get("tensorflow")),
        keras=_package(answer.get("keras")),
        pip=answer.get("pip") is True,
    )


def _package(data: object) -> Package | None:
    if not isinstance(data, dict):
        return None
    version, cuda, libraries = data.get("version"), data.get("cuda"), data.get("libraries")
    return Package(
        version=version if isinstance(version, str) else None, cuda=cuda if isinstance(cuda, bool) else None,
        libraries=libraries if isinstance(libraries, bool) else None,
    ).with_architectures(data.get("architectures"))


class PythonProbe:
    """A question under way. Always `close` it, so that it leaves no process."""

    def __init__(
        self,
        python: str,
        question: Answer | None = None,
        *,
        variables: dict[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Start asking; `variables` are added to this process's environment.

        Raises `ValueError` with a sentence if the Python cannot be started.
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
                tr("{python} is not a Python interpreter: it printed without end instead of its version. {remedy}",
                   python=self.python, remedy=tr(REMEDY))
            ) from None
        if ended:
            self.close()
            return self._parse(process)
        if time.monotonic() > self._deadline:
            self.close()
            raise ValueError(
                tr("{python} did not report its version within {timeout_s:g} s. "
                   "Start it in a terminal to see what it waits for, or choose another; "
                   "`trainyard pythons` lists those of this machine.", python=self.python, timeout_s=self._timeout_s)
            )
        return None

    def wait(self) -> Answer:
        """Wait for the answer and return it. Raises `ValueError` with a sentence."""
        try:
            while (answer := self.poll()) is None:
                time.sleep(POLL_S)
        finally:
            self.close()
        return answer

    def close(self) -> None:
        """End the process and all that it started."""
        self._process.close()

    def _parse(self, process: HelperProcess) -> Answer:
        answer = _answer(process.output)
        how, last_error = process.ending(), _last_line(process.errors)
        if not _is_answer(answer):
            words = last_error or _last_line(process.output)
            printed = tr(" and printed “{words}”", words=words) if words else ""
            if how:
                raise ValueError(
                    tr("{python} cannot be used: it ended with {how}{printed} instead of its version. {remedy}",
                       python=self.python, how=how, printed=printed, remedy=tr(REMEDY))
                )
            raise ValueError(
                tr("{python} is not a Python interpreter: it ended without reporting its version{printed}. {remedy}",
                   python=self.python, printed=printed, remedy=tr(REMEDY))
            )
        version = answer["version"]
        if version >= [3, 8] and "prefix" not in answer:
            raise ValueError(
                tr("{python} cannot be used: Python {version} started and then ended with {how}{printed}. {remedy}",
                   python=self.python, version=".".join(map(str, version)), how=how or tr("no answer"),
                   printed=tr(", and printed “{words}”", words=last_error) if last_error else "", remedy=tr(REMEDY))
            )
        return answer


def _start(python: str, question: Answer, variables: dict[str, str]) -> HelperProcess:
    _check(python)
    try:
        return HelperProcess(
            [python, "-c", START, str(PROBE), json.dumps(question)],
            environment={**clean_environment(python), **variables},
            stderr=subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise ValueError(
            tr("{python} cannot be started: {words}. {remedy}", python=python, words=words, remedy=tr(REMEDY))
        ) from error


def _check(python: str) -> None:
    """Raise `ValueError` with a sentence if there is no program at this path."""
    path = Path(python)
    try:
        is_folder, is_there, is_link = path.is_dir(), path.exists(), path.is_symlink()
    except (OSError, ValueError):
        raise ValueError(
            tr("{python!r} cannot be the path of a Python. {remedy}", python=python, remedy=tr(REMEDY))
        ) from None
    if is_folder:
        raise ValueError(
            tr("{python} is a folder, not a Python. Name the interpreter in it, such as {path}.",
               python=python, path=path / "bin/python")
        )
    if not is_there and is_link:
        raise ValueError(
            tr("{python} is a link to {readlink}, which is gone: the Python of this environment was removed. "
               "Create the environment again. {remedy}", python=python, readlink=path.readlink(), remedy=tr(REMEDY))
        )
    if not is_there:
        raise ValueError(tr("There is no Python at {python}. {remedy}", python=python, remedy=tr(REMEDY)))
    if not os.access(path, os.X_OK):
        raise ValueError(
            tr("{python} may not be executed. Allow it (chmod +x), if it is a Python. {remedy}",
               python=python, remedy=tr(REMEDY))
        )


def _answer(output: bytearray) -> Answer:
    """Merge the answers behind the marks. Other output, such as that of a `.pth` file, is ignored."""
    answer: Answer = {}
    for line in output.split(b"\n"):
        if line.startswith(MARK):
            with contextlib.suppress(ValueError, RecursionError):
                part = json.loads(line.removeprefix(MARK))
                answer.update(part if isinstance(part, dict) else {})
    return answer


def _last_line(output: bytearray) -> str:
    lines = output[-4 * SHOWN_CHARACTERS :].decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return replace_control_characters(words)[-SHOWN_CHARACTERS:]


FORMAT = 1
MAX_ENTRIES = 300
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of a file that is read; a larger one is not ours."""


def default_file() -> Path:
    return cache_folder() / "pythons.json"


class ProbeCache:
    """Answers by interpreter, optionally kept in a file.

    A damaged file counts as empty. If the file cannot be written, the Pythons are asked again next time.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file, self._changed = file, False
        self._entries: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            document = parse_json(read_whole(file, MAX_BYTES, follow_link=True)) if file else None
            if isinstance(document, dict) and document.get("format") == FORMAT:
                entries = document.get("pythons")
                self._entries = entries if isinstance(entries, dict) else {}

    def get(self, path: str, key: str = "") -> Answer | None:
        """Return this interpreter's answer, or None if it or its packages changed; `key` identifies the question."""
        entry = self._entries.get(_name(path, key))
        answer, seen = (entry.get("answer"), entry.get("seen")) if isinstance(entry, dict) else (None, None)
        if not isinstance(answer, dict) or not _is_answer(answer) or not isinstance(seen, dict):
            return None
        return answer if seen == _seen(seen) else None

    def put(self, path: str, answer: Answer, key: str = "", also: Iterable[str] = ()) -> None:
        """Keep an answer until the interpreter, a folder of its packages, or one of the files in `also` changes."""
        if _is_script(path):
            return  # a shim: other files decide which Python it starts
        listed = answer.get("folders")
        folders = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
        # Insert it as the newest entry; the oldest are dropped.
        self._entries.pop(_name(path, key), None)
        self._entries[_name(path, key)] = {"answer": answer, "seen": _seen([path, *folders, *also])}
        while len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        self._changed = True

    def save(self) -> None:
        """Write the file, if there is one and something has changed."""
        if self._file is None or not self._changed:
            return
        self._changed = False
        with contextlib.suppress(OSError):
            make_cache_folder(self._file.parent)
            write_whole(self._file, json.dumps({"format": FORMAT, "pythons": self._entries}))


def _name(path: str, key: str) -> str:
    # PYTHONPATH adds packages.
    return json.dumps([path, os.environ.get("PYTHONPATH", ""), key])


def _seen(paths: Iterable[str]) -> dict[str, int | None]:
    return {path: _changed(path) for path in paths}


def _changed(path: str) -> int | None:
    """Return the modification time of a file or folder, in nanoseconds; None if it is missing."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 (called some forty times per question)
    except (OSError, ValueError):
        return None


def _is_script(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def _is_answer(answer: Answer) -> bool:
    version = answer.get("version")
    return isinstance(version, list) and len(version) == 3 and all(isinstance(each, int) for each in version)
