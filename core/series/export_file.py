"""Write a file that a user has asked for: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from core.errors import RunError
from core.language import tr
from core.schema.files import TEMPORARY, not_written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


def check_free(path: Path, *, force: bool) -> None:
    """Raise `ValueError` with a sentence if there is a file at this path, unless it may be replaced.

    What is no file of a disk, such as `/dev/stdout`, is written in any case.
    """
    if not force and path.is_file() and not _is_stream(path):
        raise ValueError(tr("{path} exists already. Name another file, or add --force to replace it.", path=path))


@contextlib.contextmanager
def export_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its place when it is whole; until then, and after an error, `path` is as it was.

    An existing file is replaced and keeps its permissions. Raises `RunError` with a sentence when it cannot be
    written.
    """
    try:
        if _is_stream(path):
            with path.open("wb") as stream:
                yield stream
            return
        target = path.resolve()  # a link stays a link to the new file
        temporary = target.with_name(f".export-{os.urandom(8).hex()}{TEMPORARY}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                if target.exists():
                    temporary.chmod(stat.S_IMODE(target.stat().st_mode))
                yield file
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(
            not_written(path, error, if_full=tr("Free some space."), otherwise=tr("Name another file."))
        ) from error


def export_bytes(data: bytes, path: Path) -> None:
    """Write a file that a user has asked for. Raises `RunError` as `export_file`."""
    with export_file(path) as file:
        file.write(data)


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a device, or below `/dev`, such as `/dev/stdout` into a file."""
    return path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir())
