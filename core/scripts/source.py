"""A program's source files: the one that is started, and those of its own that it imports."""

from __future__ import annotations

import ast
import io
import os
import tokenize
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from core.scripts.imports import Import, imports
from core.scripts.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAX_BYTES = 16 * 1024 * 1024
"""No program is larger; checkpoints are."""
MAX_FILES = 48
LEVELS = 2
"""So deep a program's own modules are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of the program, read."""

    path: Path
    package: tuple[str, ...]
    """The package it belongs to, for its relative imports."""
    imports: tuple[Import, ...]
    evidence: Usage
    needed: bool
    """Whether it is certainly executed."""


def is_file(path: Path) -> bool:
    """Whether there is a file that can be seen; never an error, as in a folder that may not be looked into."""
    return os.path.isfile(path)  # noqa: PTH113 (which raises there)


def read(path: Path) -> bytes:
    """The text of a program, as bytes. Raises `ValueError` with a sentence for what is none."""
    name = path.name
    try:
        if not path.is_file():
            raise ValueError(f"{path} is no file. Name a Python program.")
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"{name} is larger than 16 MB: that is data, not a program. Name a Python program.")
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(_unreadable(path, error)) from error
    if b"\0" in data:
        raise ValueError(f"{name} is not a text: it has NUL bytes in it. Name a Python program, as text.")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise ValueError(
            f"{name} is not a text that Python can read: {error}. "
            "Save it as UTF-8, or name its encoding in its first line."
        ) from error
    return data


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read: {error.strerror}. Allow it to be read, or name another script."


def source_of(path: Path, package: tuple[str, ...], *, needed: bool) -> SourceFile:
    """A file of the program. Raises `SyntaxError` where this Python does not understand it; `ValueError` as `read`."""
    try:
        stat = path.stat()
        imported, evidence = _examined(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise ValueError(_unreadable(path, error)) from error
    return SourceFile(path=path, package=package, imports=imported, evidence=evidence, needed=needed)


@lru_cache(maxsize=256)
def _examined(path: Path, changed_ns: int, size_bytes: int) -> tuple[tuple[Import, ...], Usage]:
    """What a file shows; kept as long as it has not changed, for a program is looked at again with every choice."""
    del changed_ns, size_bytes  # parts of the key
    data = read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the program's author should change is told when it runs
        try:
            tree = ast.parse(data)
        except (RecursionError, MemoryError) as error:
            raise SyntaxError("it is nested too deep") from error
    return tuple(imports(tree)), Usage(tree)


class OwnModules:
    """Which modules are a program's own: those in a folder; with `only`, this one of them."""

    def __init__(self, folder: Path, only: str = "") -> None:
        self.folder, self._only = folder, only
        self._compiled: set[str] | None = None

    def has(self, name: str) -> bool:
        """Whether a top-level module is its own for certain: a file, or a package."""
        if self._only and name != self._only:
            return False
        inside = self.folder / name
        files = (inside / "__init__.py", inside.with_name(f"{name}.py"))
        return any(map(is_file, files)) or name in self._compiled_modules()

    def is_folder(self, name: str) -> bool:
        """Whether it may be its own: a folder with modules, which gives way to a package of that name elsewhere."""
        return not self._only and any((self.folder / name).glob("*.py"))

    def files(self, parts: tuple[str, ...]) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """The files that are executed for a module: those of its packages, and its own; with the package of each."""
        if self._only and parts[0] != self._only:
            return
        for depth in range(1, len(parts) + 1):
            inside = self.folder.joinpath(*parts[:depth])
            if is_file(inside / "__init__.py"):
                yield inside / "__init__.py", parts[:depth]
            elif depth == len(parts) and is_file(file := inside.with_name(f"{inside.name}.py")):
                yield file, parts[:-1]

    def _compiled_modules(self) -> set[str]:
        """Modules that are no source; looked up once, for the folder may be full of data."""
        if self._compiled is None:
            self._compiled = {path.name.partition(".")[0] for path in self.folder.glob("*.so")}
        return self._compiled

    def called(self, path: Path) -> str:
        """A file of its own, for people."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else path.name


def follow(first: SourceFile, own: OwnModules) -> list[SourceFile]:
    """A file and those of the program's own that it imports, `LEVELS` deep; a module's packages are executed, too."""
    found = {first.path: first}
    if first.package:
        _add_all(found, own.files(first.package), needed=True)
    level = [*found.values()]
    for _ in range(LEVELS):
        level = [deeper for source in level for deeper in _imported(source, own, found)]
    return list(found.values())


def _imported(source: SourceFile, own: OwnModules, found: dict[Path, SourceFile]) -> list[SourceFile]:
    """The files that a file imports and that are not known yet; they are known from now on."""
    return [
        new
        for each in source.imports
        for parts in _modules(each, source.package)
        for new in _add_all(found, own.files(parts), needed=source.needed and each.needed)
    ]


def _add_all(
    found: dict[Path, SourceFile], files: Iterable[tuple[Path, tuple[str, ...]]], *, needed: bool
) -> list[SourceFile]:
    """Read those of the files that are not known yet; returns them. One that cannot be read here shows nothing."""
    new = []
    for path, package in files:
        if path in found or len(found) >= MAX_FILES:
            continue
        try:
            found[path] = source_of(path, package, needed=needed)
        except (SyntaxError, ValueError):
            nothing = Usage(ast.Module(body=[], type_ignores=[]))
            # Whether it can be executed by the chosen Python is asked of that one.
            found[path] = SourceFile(path=path, package=package, imports=(), evidence=nothing, needed=needed)
        new.append(found[path])
    return new


def _modules(each: Import, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The full names of the modules that an import may load."""
    start = package[: len(package) - each.level + 1] if each.level else ()
    if each.level > len(package):
        return  # beyond the top: Python will say so
    base = (*start, *each.module.split(".")) if each.module else start
    yield base
    yield from ((*base, name) for name in each.names if name != "*")
