"""Our code as it travels to a node: `core`, the included recipes with their data, and packages that an agent needs.

What is compiled does not travel: an agent does without numpy and orjson, or finds them beside what training needs.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from core.hosts.ray import node
from core.system.installation import COMMAND, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PACKAGES = ("platformdirs", "pynvml")
"""Packages in plain Python."""
RESOURCES = "resources"
OF_RESOURCES = frozenset({"__init__.py", "data", "recipes"})
"""What of `resources` a node needs: icons, themes and translations are for this machine."""
LEVEL = 1
"""Of the compression: half a second of another one would save a third of the megabyte."""


def sources() -> list[str]:
    """Return the folders and files of what travels, found without loading it."""
    found = [str(ROOT / "core"), str(ROOT / RESOURCES)]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        found.append(str(Path(spec.origin).parent) if spec.submodule_search_locations else spec.origin)
    return found


def packed(paths: Sequence[str], number: str) -> bytes:
    """Return what travels as a ZIP archive. `number`: the version of Trainyard, which the agent says."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path in paths:
            for file, name in _files(Path(path)):
                archive.write(file, name)
        archive.write(node.__file__, "__main__.py")  # a Python that is given the archive runs the keeper
        metadata = f"Metadata-Version: 2.1\nName: {COMMAND}\nVersion: {number}\n"
        archive.writestr(f"{COMMAND}-{number}.dist-info/METADATA", metadata)
    return buffer.getvalue()


def _files(path: Path) -> Iterator[tuple[Path, str]]:
    if path.is_file():
        yield path, path.name
        return
    for each in sorted(path.rglob("*")):
        inner = each.relative_to(path)
        is_needed = path.name != RESOURCES or inner.parts[0] in OF_RESOURCES
        if is_needed and each.is_file() and "__pycache__" not in inner.parts:
            yield each, f"{path.name}/{inner}"
