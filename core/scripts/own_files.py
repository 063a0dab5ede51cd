"""The text of a program and of its own modules, and a hash by which two machines compare it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from core.scripts.source import OwnModules, follow, read, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping
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
