"""The text of a program and of its own modules, and the hashes by which two machines compare it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from core.language import tr
from core.schema.files import open_to_read
from core.scripts.source import OwnModules, follow, read, source_of
from core.text import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def own_files(path: Path) -> dict[str, str]:
    """Return the text of a program and of its own modules, by their names in its folder.

    Raises `SyntaxError` and `ValueError` as `source_of`, and `ValueError` for a file that is not UTF-8.
    """
    found = follow(source_of(path, (), needed=True), OwnModules(path.parent))
    return {str(each.path.relative_to(path.parent)): read(each.path).decode() for each in found}


def files_hash(texts: Mapping[str, str]) -> str:
    """Return the SHA-256 of files, by their names and contents; the order of the files has no influence."""
    return hashlib.sha256(json.dumps(sorted(texts.items())).encode()).hexdigest()


def hashes(paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file, by path. Raises `OSError`."""
    return {path: _hash(path) for path in paths}


def differences(wanted: Mapping[str, str]) -> list[str]:
    """Return sentences on files that are missing here, or have another content. `wanted`: what `hashes` returned."""
    present = {path: _hash_or_none(path) for path in wanted}
    missing = [path for path, value in present.items() if value is None]
    changed = [path for path, value in present.items() if value not in {None, wanted[path]}]
    found = []
    if missing:
        found.append(
            tr(
                "These files of the script are missing or cannot be read: {files}. Copy the script and its modules to "
                "the same paths.",
                files=enumerated(missing),
            )
        )
    if changed:
        found.append(
            tr(
                "These files of the script have another content than on the machine that starts the run: {files}. "
                "Copy them from there.",
                files=enumerated(changed),
            )
        )
    return found


def _hash(path: str) -> str:
    with open_to_read(path, follow_link=True) as file:
        return hashlib.sha256(file.read()).hexdigest()


def _hash_or_none(path: str) -> str | None:
    try:
        return _hash(path)
    except OSError:
        return None
