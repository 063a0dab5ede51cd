"""What Pythons have told of themselves, kept until something changes: the interpreter, or a folder of its packages."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from core.schema.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER_VARIABLE = "TRAINYARD_CACHE_DIR"
FORMAT = 1
MAX_ENTRIES = 300
MAX_BYTES = 4 * 1024 * 1024
"""A larger file is none of ours."""

Answer = dict[str, Any]


def default_file() -> Path:
    """Where it is kept: the user's cache folder, unless TRAINYARD_CACHE_DIR names another."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return (Path(folder) if folder else platformdirs.user_cache_path("trainyard")) / "pythons.json"


class ProbeCache:
    """Answers by interpreter, in a file where one is given.

    A broken file is an empty one; one that cannot be written costs nothing but the asking.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries: dict[str, Any] = _read(file) if file else {}
        self._changed = False

    def get(self, path: str, key: str = "") -> Answer | None:
        """What this interpreter answered, unless it or its packages have changed; `key` tells questions apart."""
        entry = self._entries.get(_name(path, key))
        if not isinstance(entry, dict):
            return None
        answer, seen = entry.get("answer"), entry.get("seen")
        if not isinstance(answer, dict) or not _is_answer(answer) or not isinstance(seen, dict):
            return None
        return answer if seen == _seen(seen) else None

    def put(self, path: str, answer: Answer, key: str = "", also: Iterable[str] = ()) -> None:
        """Keep an answer until the interpreter, a folder of its packages, or one of the files in `also` changes."""
        if _is_script(path):
            return  # a shim: which Python it starts is decided by files that are not known here
        told = answer.get("folders")
        folders = [each for each in told if isinstance(each, str)] if isinstance(told, list) else []
        # The key is put last, and the oldest are dropped first.
        self._entries.pop(_name(path, key), None)
        self._entries[_name(path, key)] = {"answer": answer, "seen": _seen([path, *folders, *also])}
        while len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        self._changed = True

    def save(self) -> None:
        """Write the file, if there is one and something is new."""
        if self._file is None or not self._changed:
            return
        self._changed = False
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps({"format": FORMAT, "pythons": self._entries}))


def _name(path: str, key: str) -> str:
    # PYTHONPATH has packages of its own.
    return json.dumps([path, os.environ.get("PYTHONPATH", ""), key])


def _seen(paths: Iterable[str]) -> dict[str, int | None]:
    return {path: _changed(path) for path in paths}


def _changed(path: str) -> int | None:
    """When a file or a folder changed, in nanoseconds; None when it is gone."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 (some forty a question: without a Path for each)
    except (OSError, ValueError):
        return None


def _is_script(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def _is_answer(told: Answer) -> bool:
    version = told.get("version")
    return isinstance(version, list) and len(version) == 3 and all(isinstance(each, int) for each in version)


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > MAX_BYTES:
            return {}
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    entries = document.get("pythons") if isinstance(document, dict) and document.get("format") == FORMAT else None
    return entries if isinstance(entries, dict) else {}
