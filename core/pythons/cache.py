"""Cache the answers of Pythons until the interpreter or a folder of its packages changes."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.schema.files import parse_json, read_whole, write_whole
from core.system.folders import cache_folder, make_cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 1
MAX_ENTRIES = 300
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of a file that is read; a larger one is not ours."""

Answer = dict[str, Any]


def default_file() -> Path:
    """Return the cache's file."""
    return cache_folder() / "pythons.json"


class ProbeCache:
    """Answers by interpreter, optionally kept in a file.

    A damaged file counts as empty. If the file cannot be written, the Pythons are asked again next time.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries: dict[str, Any] = _read(file) if file else {}
        self._changed = False

    def get(self, path: str, key: str = "") -> Answer | None:
        """Return this interpreter's answer, or None if it or its packages changed; `key` identifies the question."""
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


def _read(file: Path) -> dict[str, Any]:
    try:
        document = parse_json(read_whole(file, MAX_BYTES, follow_link=True))
    except (OSError, ValueError):
        return {}
    entries = document.get("pythons") if isinstance(document, dict) and document.get("format") == FORMAT else None
    return entries if isinstance(entries, dict) else {}
