"""Read a program's source files: the one that is started, and those of its own modules that it imports."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from core.language import tr
from core.launchers.program import SUFFIX, code_cells
from core.schema.files import open_to_read
from core.scripts.syntax import Import, Usage, imports
from core.text import enumerated

MAX_BYTES = 16 * 1024 * 1024
"""Larger files are data, such as checkpoints."""
MAX_FILES = 48
LEVELS = 2
"""Levels of imports to follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of the program."""

    path: Path
    package: tuple[str, ...]
    """The package that contains it, for relative imports."""
    imports: tuple[Import, ...]
    usage: Usage
    needed: bool
    """Whether it is always executed."""


def is_file(path: Path) -> bool:
    """Return whether the file exists; False if permission is missing."""
    return os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises without permission)


def read(path: Path) -> bytes:
    """Return the source of a program. Raises `ValueError` with a sentence if the file is not a program."""
    name = path.name
    try:
        if not path.is_file():
            raise ValueError(tr("{path} is not a file. Name a Python program.", path=path))
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(
                tr("{name} is larger than 16 MB, so it is not a program. Name a Python program.", name=name)
            )
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(_unreadable(path, error)) from error
    if path.suffix == SUFFIX:
        try:
            data = "\n".join(cell.source for cell in code_cells(data.decode())).encode()
        except (ValueError, RecursionError) as error:
            raise ValueError(
                tr("{name} is not a notebook: {error}. Save it again as .ipynb, or name a program.",
                   name=name, error=error)
            ) from error
    if b"\0" in data:
        raise ValueError(tr("{name} is not a text file: it contains NUL bytes. Name a Python program.", name=name))
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise ValueError(
            tr("Python cannot decode {name}: {error}. Save it as UTF-8, or name its encoding in its first line.",
               name=name, error=error)
        ) from error
    return data


def lines_left_out(path: Path) -> tuple[str, ...]:
    """Return the lines of a notebook that are left out when it runs as a program; none of another file."""
    if path.suffix != SUFFIX:
        return ()
    return tuple(line for cell in code_cells(path.read_text(encoding="utf-8")) for line in cell.left_out)


def _unreadable(path: Path, error: OSError) -> str:
    return tr("{path} cannot be read: {strerror}. Make it readable, or name another script.",
              path=path, strerror=error.strerror)


def source_of(path: Path, package: tuple[str, ...], *, needed: bool) -> SourceFile:
    """Return a file of the program. Raises `SyntaxError` if this Python cannot parse it, and `ValueError` as `read`."""
    try:
        stat = path.stat()
        imported, usage = _parsed(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise ValueError(_unreadable(path, error)) from error
    return SourceFile(path=path, package=package, imports=imported, usage=usage, needed=needed)


@lru_cache(maxsize=256)
def _parsed(path: Path, changed_ns: int, size_bytes: int) -> tuple[tuple[Import, ...], Usage]:
    """Parse a file. Cached until it changes: the program is analysed again with every choice."""
    del changed_ns, size_bytes  # parts of the cache key
    data = read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program shows its own warnings when it runs
        try:
            tree = ast.parse(data)
        except (RecursionError, MemoryError) as error:
            raise SyntaxError(tr("it is nested too deeply")) from error
    return tuple(imports(tree)), Usage(tree)


class OwnModules:
    """A program's own modules: those in a folder; with `only`, just this one of them."""

    def __init__(self, folder: Path, only: str = "") -> None:
        self.folder, self._only = folder, only

    def has(self, name: str) -> bool:
        """Return whether a top-level module is certainly the program's own: a file or a package."""
        if self._only and name != self._only:
            return False
        inside = self.folder / name
        files = (inside / "__init__.py", inside.with_name(f"{name}.py"))
        return any(map(is_file, files)) or name in self._compiled

    def is_folder(self, name: str) -> bool:
        """Return whether a module may be its own: a folder with modules. A package elsewhere has priority."""
        return not self._only and any((self.folder / name).glob("*.py"))

    def files(self, parts: tuple[str, ...]) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Yield the files executed for a module, those of its packages first, each with its package."""
        if self._only and parts[0] != self._only:
            return
        for depth in range(1, len(parts) + 1):
            inside = self.folder.joinpath(*parts[:depth])
            if is_file(inside / "__init__.py"):
                yield inside / "__init__.py", parts[:depth]
            elif depth == len(parts) and is_file(file := inside.with_name(f"{inside.name}.py")):
                yield file, parts[:-1]

    @cached_property
    def _compiled(self) -> set[str]:
        """The compiled modules. Listed once: the folder may contain many data files."""
        return {path.name.partition(".")[0] for path in self.folder.glob("*.so")}

    def display_name(self, path: Path) -> str:
        """Return a file's path relative to the folder, or its name."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else path.name


def follow(first: SourceFile, own: OwnModules) -> list[SourceFile]:
    """Return a file, the `__init__` files of its packages, and its own modules, `LEVELS` imports deep."""
    found = {first.path: first}
    if first.package:
        _add_all(found, own.files(first.package), needed=True)
    level = [*found.values()]
    for _ in range(LEVELS):
        level = [deeper for source in level for deeper in _imported(source, own, found)]
    return list(found.values())


def _imported(source: SourceFile, own: OwnModules, found: dict[Path, SourceFile]) -> list[SourceFile]:
    """Add the files that a file imports to `found`, and return the new ones."""
    return [
        new
        for each in source.imports
        for parts in _modules(each, source.package)
        for new in _add_all(found, own.files(parts), needed=source.needed and each.needed)
    ]


def _add_all(
    found: dict[Path, SourceFile], files: Iterable[tuple[Path, tuple[str, ...]]], *, needed: bool
) -> list[SourceFile]:
    """Add files to `found`, and return the new ones. A file that this Python cannot parse counts as empty."""
    new = []
    for path, package in files:
        if path in found or len(found) >= MAX_FILES:
            continue
        try:
            found[path] = source_of(path, package, needed=needed)
        except (SyntaxError, ValueError):
            nothing = Usage(ast.Module(body=[], type_ignores=[]))
            # `problems` asks the chosen Python whether it can parse the file.
            found[path] = SourceFile(path=path, package=package, imports=(), usage=nothing, needed=needed)
        new.append(found[path])
    return new


def _modules(each: Import, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the full names of the modules that an import may load."""
    start = package[: len(package) - each.level + 1] if each.level else ()
    if each.level > len(package):
        return  # beyond the top-level package: an error when it runs
    base = (*start, *each.module.split(".")) if each.module else start
    yield base
    yield from ((*base, name) for name in each.names if name != "*")


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
    found = {}
    for path in paths:
        with open_to_read(path, follow_link=True) as file:
            found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def differences(wanted: Mapping[str, str]) -> list[str]:
    """Return sentences on files that are missing here, or have another content. `wanted`: what `hashes` returned."""
    present: dict[str, str] = {}
    for path in wanted:
        with contextlib.suppress(OSError):
            present |= hashes([path])
    missing = [path for path in wanted if path not in present]
    changed = [path for path, value in present.items() if value != wanted[path]]
    found = []
    if missing:
        found.append(
            tr("These files of the script are missing or cannot be read: {files}. Copy the script and its modules to "
               "the same paths.", files=enumerated(missing))
        )
    if changed:
        found.append(
            tr("These files of the script have another content than on the machine that starts the run: {files}. "
               "Copy them from there.", files=enumerated(changed))
        )
    return found
