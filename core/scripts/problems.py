"""Find what would end a program at once, before it is started: ask the chosen Python, once for all of it."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.language import join_sentences, tr, tr_plural
from core.pythons.python_info import MIN_FOR_SCRIPTS, TIMEOUT_S, ProbeCache, PythonInfo, PythonProbe, parse_info
from core.scripts.analysis import FRAMEWORKS, ScriptAnalysis
from core.text import join_names

FAILED_S = 10.0
"""Seconds for which an interpreter that failed to answer is not asked again."""
LEVELS = 4
"""How many folders above a program are searched for its package."""

DISTRIBUTIONS = {
    "Crypto": "pycryptodome", "PIL": "pillow", "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv", "faiss": "faiss-cpu", "git": "GitPython",
    "hydra": "hydra-core", "ignite": "pytorch-ignite", "pl_bolts": "lightning-bolts",
    "pytorch_lightning": "pytorch-lightning", "segment_anything": "segment-anything", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "tensorflow_datasets": "tensorflow-datasets", "yaml": "pyyaml",
}
"""Packages whose names differ for import and installation."""
REMOVED = {"asynchat", "asyncore", "cgi", "cgitb", "crypt", "distutils", "imp", "imghdr", "pipes", "smtpd", "telnetlib"}
"""Modules of the standard library that later Pythons have removed."""


@dataclass(slots=True)
class ProblemCache:
    """Earlier answers, valid until the interpreter, its packages, the program's files or its folder change."""

    answers: ProbeCache = field(default_factory=ProbeCache)
    failures: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By interpreter: a sentence, and until when it counts, in seconds of `time.monotonic`."""


_CACHE = ProblemCache()


def problems(
    script: ScriptAnalysis, *, python: str, cwd: str, variables: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S, cache: ProblemCache | None = None, min_version: tuple[int, int] = MIN_FOR_SCRIPTS,
) -> list[str]:
    """Return a sentence with a remedy for each thing that would end this program at once under this Python.

    Waits up to `timeout_s` for the Python's answer, unless it is in the cache. `variables` are added to this process's
    environment. A Python before `min_version` is a problem.
    """
    working = Path(os.path.expanduser(cwd))  # noqa: PTH111 (Path.expanduser raises for an unknown user)
    gone = [] if os.path.isdir(working) else [_gone(working)]  # noqa: PTH112 (Path.is_dir raises without permission)
    try:
        answer = _ask(script, python, dict(variables or {}), timeout_s, cache or _CACHE)
    except ValueError as error:
        return [*gone, str(error)]
    info = parse_info(python, answer)
    if too_old := info.too_old(min_version):
        return [*gone, too_old]
    errors = [_syntax_error(script, path, info, error) for path, error in answer.get("errors", {}).items()]
    missing = [name for name in answer.get("missing", []) if not script.finds_more or name in FRAMEWORKS]
    near = _nearby([name for name in missing if name not in FRAMEWORKS], Path(script.folder), working)
    return [*gone, *errors, *_not_on_path(script.name, near), *_not_installed(script.name, missing, info, near)]


def _ask(
    script: ScriptAnalysis, python: str, variables: dict[str, str], timeout_s: float, cache: ProblemCache
) -> dict[str, Any]:
    """Return the Python's answer, from the cache if possible. Raises `ValueError` with a sentence."""
    question = {"folder": script.folder, "modules": list(script.modules), "files": list(script.files)}
    key = json.dumps([question, sorted(variables.items())])
    answer, failure = cache.answers.get(python, key), cache.failures.get(python)
    if answer is not None:
        return answer
    if failure is not None and time.monotonic() < failure[1]:
        raise ValueError(failure[0])
    # An interpreter that cannot be started is not cached: finding out again takes no time.
    probe = PythonProbe(python, question, variables=variables, timeout_s=timeout_s)
    try:
        answer = probe.wait()
    except ValueError as error:
        cache.failures[python] = str(error), time.monotonic() + FAILED_S
        raise
    cache.answers.put(python, answer, key, [*script.files, script.folder])
    return answer


def _gone(working: Path) -> str:
    if os.path.lexists(working):
        return tr("The working folder {folder} is not a folder. Choose another.", folder=working)
    return tr("The working folder {folder} does not exist. Choose another.", folder=working)


def _syntax_error(script: ScriptAnalysis, path: str, python: PythonInfo, error: Mapping[str, Any]) -> str:
    inside = path.startswith(f"{script.folder}/")
    name = script.name if path == script.file else os.path.relpath(path, script.folder) if inside else path
    line, words = error.get("line"), str(error.get("words") or "").rstrip(".")
    if line:
        fault = tr("{name} has a syntax error in line {line}: {words} ({python}).",
                   name=name, line=line, words=words, python=python.title)
    else:
        fault = tr("{name} has a syntax error: {words} ({python}).", name=name, words=words, python=python.title)
    return join_sentences([fault, tr("Correct it, or choose the Python that it was written for.")])


def _nearby(missing: Sequence[str], folder: Path, working: Path) -> dict[str, Path]:
    """Return the modules found in the working folder or above the program's, each with its folder."""
    above = [working, folder, *folder.parents[:LEVELS]]
    folders = [each for parent in above if not _is_shared(parent) for each in (parent, parent / "src")]
    found = {name: next((each for each in folders if _is_in(name, each)), None) for name in missing}
    return {name: each for name, each in found.items() if each is not None}


def _is_shared(folder: Path) -> bool:
    """Return whether every user may write to the folder, as to /tmp: PYTHONPATH must not name it."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)  # noqa: PTH116 (Path.stat is not needed)
    except OSError:
        return False


def _is_in(name: str, folder: Path) -> bool:
    return os.path.isfile(folder / f"{name}.py") or os.path.isfile(folder / name / "__init__.py")  # noqa: PTH113


def _not_on_path(name: str, near: Mapping[str, Path]) -> list[str]:
    """Return a sentence for each module that exists but is not on the program's path."""
    return [
        tr("{name} needs the module {module}, which is in {folder}, but Python will not search there. "
           "Set PYTHONPATH={path} for it, or run it as a module, with that working folder.",
           name=name, module=each, folder=folder, path=shlex.quote(str(folder)))
        for each, folder in near.items()
    ]


def _not_installed(name: str, missing: Sequence[str], python: PythonInfo, near: Collection[str]) -> list[str]:
    """Return a sentence on the missing packages, and one on modules of another Python's standard library."""
    own = [each for each in missing if each in sys.stdlib_module_names or each in REMOVED]
    packages = [each for each in missing if each not in own and each not in near]
    about = {"name": name, "title": python.title, "python": python.path}
    found = []
    if packages:
        install = python.install_command(" ".join(DISTRIBUTIONS.get(each, each) for each in packages))
        needs = tr_plural(
            "{name} needs the package {packages}, which {title} at {python} does not have. "
            "Install it ({install}), or choose another Python.",
            "{name} needs the packages {packages}, which {title} at {python} does not have. "
            "Install them ({install}), or choose another Python.",
            len(packages), packages=join_names(packages), install=install, **about,
        )
        found.append(needs)
    if own:
        lacks = tr_plural(
            "{name} needs the module {modules} of another Python's standard library, which {title} at {python} "
            "does not have. Choose an earlier or a later Python.",
            "{name} needs the modules {modules} of another Python's standard library, which {title} at {python} "
            "does not have. Choose an earlier or a later Python.",
            len(own), modules=join_names(own), **about,
        )
        found.append(lacks)
    return found
